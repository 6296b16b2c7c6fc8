//! What a task asks of the model: the likelihood of each choice, or a reply.
//!
//! Texts become tokens as lm-eval has them made: a choice together with its prompt, because tokens
//! may join both, and without the model's begin token.

use anyhow::{Result, ensure};
use wf_engine::{Frontend, Generate, Input, ModelText, Piece, TextStream, TokenId};

use super::file::{Choice, Generation, Kind};

/// One thing asked of the model.
pub(super) struct Ask {
    prompt: Vec<TokenId>,
    how: How,
}

enum How {
    /// How likely is what comes after so many tokens?
    Likelihood { after: usize },
    /// How does it go on?
    Reply { max_tokens: usize, stop: Vec<String> },
}

/// What is being computed.
pub(super) struct Asked {
    stream: TextStream,
    /// Where likelihoods begin to count, if they are asked for.
    after: Option<usize>,
}

/// What the model says.
pub(super) enum Answer {
    /// The natural logarithm of the probability of a choice.
    Likelihood(f64),
    /// What it wrote.
    Text(String),
}

impl Ask {
    /// All that a task asks: as many likelihoods as it has choices, or one reply.
    pub(super) fn of(model: &ModelText, kind: &Kind) -> Result<Vec<Self>> {
        match kind {
            Kind::Choice(task) => {
                task.choices.iter().map(|choice| Self::likelihood(model, task, choice)).collect()
            }
            Kind::Generation(task) => Ok(vec![Self::reply(model, task)]),
        }
    }

    fn likelihood(model: &ModelText, task: &Choice, choice: &str) -> Result<Self> {
        let delimiter = match &task.delimiter {
            Some(delimiter) => delimiter,
            None => usual_delimiter(&task.prompt, choice),
        };
        let continuation = format!("{delimiter}{choice}");
        let (prompt, after) = match task.prompt.is_empty() {
            true => after_nothing(model, &continuation)?,
            false => pair(model, &task.prompt, &continuation),
        };
        Ok(Self { prompt, how: How::Likelihood { after } })
    }

    fn reply(model: &ModelText, task: &Generation) -> Self {
        let how = How::Reply { max_tokens: task.max_tokens, stop: task.stop.clone() };
        Self { prompt: model.tokenizer.encode(&task.prompt), how }
    }

    /// Hands it to the engine.
    pub(super) fn begin(self, frontend: &Frontend) -> Result<Asked> {
        let plain = Generate::new(Input::Ids(Vec::new()));
        let (generate, after) = match self.how {
            How::Likelihood { after } => {
                let generate = Generate { max_tokens: Some(0), prompt_logprobs: Some(0), ..plain };
                (generate, Some(after))
            }
            How::Reply { max_tokens, stop } => {
                // What fits the context, at most.
                let room = frontend.context_len().saturating_sub(self.prompt.len()).max(1);
                let max_tokens = Some(max_tokens.min(room));
                (Generate { max_tokens, stop, seed: Some(0), ..plain }, None)
            }
        };
        Ok(Asked { stream: frontend.generate_from(self.prompt, generate)?, after })
    }
}

impl Asked {
    /// Waits for it.
    pub(super) fn answer(self) -> Result<Answer> {
        let (mut text, mut logprobs) = (String::new(), Vec::new());
        for piece in self.stream {
            match piece? {
                Piece::Text { text: more, .. } => text += &more,
                // From the second token on: of the first one nothing is known.
                Piece::PromptLogprobs(more) => {
                    logprobs.extend(more.iter().map(|one| f64::from(one.logprob)));
                }
                Piece::Started { .. }
                | Piece::Progress { .. }
                | Piece::Preview(_)
                | Piece::Done(_) => {}
            }
        }
        Ok(match self.after {
            Some(after) => Answer::Likelihood(logprobs.iter().skip(after - 1).sum()),
            None => Answer::Text(text),
        })
    }
}

/// One space, unless there is one already.
fn usual_delimiter(prompt: &str, choice: &str) -> &'static str {
    let has_space = prompt.ends_with(is_space) || choice.starts_with(is_space);
    if prompt.is_empty() || has_space { "" } else { " " }
}

/// The tokens of both together, and how many of them are the prompt's. Spaces at its end belong to
/// what follows, where they are part of a word's token.
fn pair(model: &ModelText, prompt: &str, continuation: &str) -> (Vec<TokenId>, usize) {
    let bare = prompt.trim_end_matches(is_space);
    let whole = model.tokenizer.encode(&format!("{prompt}{continuation}"));
    let mut tokens = model.tokenizer.encode(bare);
    let after = tokens.len();
    tokens.extend(whole.iter().skip(after));
    // Of nothing but spaces, all belongs to what follows: the first token has nothing before it.
    (tokens, after.max(1))
}

/// The same for a text without a prompt: it comes after the token that begins texts, or ends them.
fn after_nothing(model: &ModelText, text: &str) -> Result<(Vec<TokenId>, usize)> {
    let begin = model.tokenizer.bos().or(model.end_tokens.first().copied());
    let mut tokens = model.tokenizer.encode(text);
    ensure!(begin.is_some() || tokens.len() > 1, "prompt: empty, and the model has no begin token");
    if let Some(begin) = begin.filter(|begin| tokens.first() != Some(begin)) {
        tokens.insert(0, begin);
    }
    Ok((tokens, 1))
}

/// What Python strips.
fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

#[cfg(test)]
mod tests {
    use wf_engine::read_text;
    use wf_formats::OpenOptions;

    use super::*;
    use crate::demo;

    #[test]
    fn a_space_is_put_where_there_is_none() {
        assert_eq!(usual_delimiter("The cat", "sat"), " ");
        assert_eq!(usual_delimiter("The cat", " sat"), "");
        assert_eq!(usual_delimiter("The cat\n", "sat"), "");
        assert_eq!(usual_delimiter("", "sat"), "");
    }

    #[test]
    fn spaces_between_belong_to_the_choice() {
        let text = read_text(&demo::SOURCE.open(&OpenOptions::default()).unwrap()).unwrap();
        let plain = pair(&text, "The cat", " sat");
        assert_eq!(pair(&text, "The cat ", "sat"), plain);
        assert_eq!(plain.0, text.tokenizer.encode("The cat sat"));
        assert_eq!(plain.1, text.tokenizer.encode("The cat").len());
        let (tokens, after) = after_nothing(&text, "The cat").unwrap();
        assert_eq!((tokens.len(), after), (plain.1 + 1, 1));
    }
}
