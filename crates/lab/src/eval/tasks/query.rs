//! The queries of a task: the log likelihood of each choice, or a completion.
//!
//! Texts are tokenized as lm-eval does it: a choice together with its prompt, because a token may
//! span both, and without the BOS token.

use anyhow::{Result, ensure};
use wf_engine::{
    Frontend, GenerationRequest, ModelText, PromptInput, TextEvent, TextStream, TokenId,
};

use super::file::{Choice, Kind};

pub(super) struct Query {
    prompt: Vec<TokenId>,
    request: GenerationRequest,
    /// First position whose log probability counts.
    after: usize,
}

pub(super) struct PendingQuery {
    stream: TextStream,
    after: usize,
}

#[derive(Default)]
pub(super) struct Answer {
    /// Natural logarithm of the probability of the prompt, from the position that counts.
    pub(super) loglikelihood: f64,
    pub(super) text: String,
}

impl Query {
    /// Returns the queries of a task: one per choice, or one completion.
    pub(super) fn of_task(frontend: &Frontend, kind: &Kind) -> Result<Vec<Self>> {
        let model = frontend.text();
        match kind {
            Kind::Choice(task) => task
                .choices
                .iter()
                .map(|choice| Self::log_likelihood(model, task, choice))
                .collect(),
            Kind::Generation(task) => {
                let prompt = model.tokenizer.encode(&task.prompt);
                // At most what fits the context.
                let free = frontend.context_len().saturating_sub(prompt.len()).max(1);
                let request = GenerationRequest {
                    max_tokens: Some(task.max_tokens.min(free)),
                    stop: task.stop.clone(),
                    seed: Some(0),
                    ..GenerationRequest::new(PromptInput::Tokens(Vec::new()))
                };
                Ok(vec![Self { prompt, request, after: 1 }])
            }
        }
    }

    fn log_likelihood(model: &ModelText, task: &Choice, choice: &str) -> Result<Self> {
        let delimiter = match &task.delimiter {
            Some(delimiter) => delimiter,
            None => default_delimiter(&task.prompt, choice),
        };
        let continuation = format!("{delimiter}{choice}");
        let (prompt, after) = match task.prompt.is_empty() {
            true => without_prompt(model, &continuation)?,
            false => pair(model, &task.prompt, &continuation),
        };
        let request = GenerationRequest {
            max_tokens: Some(0),
            prompt_logprobs: Some(0),
            ..GenerationRequest::new(PromptInput::Tokens(Vec::new()))
        };
        Ok(Self { prompt, request, after })
    }

    pub(super) fn submit(self, frontend: &Frontend) -> Result<PendingQuery> {
        let stream = frontend.generate_from(self.prompt, self.request)?;
        Ok(PendingQuery { stream, after: self.after })
    }
}

impl PendingQuery {
    /// Blocks until the answer is complete.
    pub(super) fn wait(self) -> Result<Answer> {
        let (mut text, mut logprobs) = (String::new(), Vec::new());
        for piece in self.stream {
            match piece? {
                TextEvent::Text { text: more, .. } => text += &more,
                // From the second token on: the first has no log probability.
                TextEvent::PromptLogprobs(more) => {
                    logprobs.extend(more.iter().map(|one| f64::from(one.logprob)));
                }
                _ => {}
            }
        }
        Ok(Answer { loglikelihood: logprobs.iter().skip(self.after - 1).sum(), text })
    }
}

/// Returns one space, unless the prompt ends or the choice begins with one.
fn default_delimiter(prompt: &str, choice: &str) -> &'static str {
    let has_space = prompt.ends_with(is_space) || choice.starts_with(is_space);
    if prompt.is_empty() || has_space { "" } else { " " }
}

/// Returns the tokens of prompt and continuation, and the number of those that are the prompt's.
/// Spaces at the end of the prompt count as part of the continuation, whose tokens include them.
fn pair(model: &ModelText, prompt: &str, continuation: &str) -> (Vec<TokenId>, usize) {
    let bare = prompt.trim_end_matches(is_space);
    let whole = model.tokenizer.encode(&format!("{prompt}{continuation}"));
    let mut tokens = model.tokenizer.encode(bare);
    let after = tokens.len();
    tokens.extend(whole.iter().skip(after));
    // A prompt of spaces alone has no tokens of its own, and the first token has no log probability.
    (tokens, after.max(1))
}

/// Returns the same for a text without a prompt: it follows the BOS token, or else the EOS token.
fn without_prompt(model: &ModelText, text: &str) -> Result<(Vec<TokenId>, usize)> {
    let bos = model.tokenizer.bos().or(model.end_tokens.first().copied());
    let mut tokens = model.tokenizer.encode(text);
    ensure!(bos.is_some() || tokens.len() > 1, "prompt is empty, and the model has no BOS token");
    if let Some(bos) = bos.filter(|bos| tokens.first() != Some(bos)) {
        tokens.insert(0, bos);
    }
    Ok((tokens, 1))
}

/// Returns `true` for characters that Python's `str.strip` removes.
fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wf_engine::read_text;
    use wf_formats::{ModelFile, OpenOptions};

    use super::*;

    #[test]
    fn a_space_is_inserted_where_there_is_none() {
        assert_eq!(default_delimiter("The cat", "sat"), " ");
        assert_eq!(default_delimiter("The cat", " sat"), "");
        assert_eq!(default_delimiter("The cat\n", "sat"), "");
        assert_eq!(default_delimiter("", "sat"), "");
    }

    #[test]
    fn spaces_between_belong_to_the_choice() {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
        let file = ModelFile::open(&demo, &OpenOptions::default()).unwrap();
        let text = read_text(&file).unwrap();
        let plain = pair(&text, "The cat", " sat");
        assert_eq!(pair(&text, "The cat ", "sat"), plain);
        assert_eq!(plain.0, text.tokenizer.encode("The cat sat"));
        assert_eq!(plain.1, text.tokenizer.encode("The cat").len());
        let (tokens, after) = without_prompt(&text, "The cat").unwrap();
        assert_eq!((tokens.len(), after), (plain.1 + 1, 1));
    }
}
