//! Results: completions, and tokens with their log probabilities.

use pyo3::prelude::*;
use wf::local::Error;
use wf_engine::{Finish, Logprobs, ModelText, SampledToken, TextEvent, TextStream, TokenId};

/// A token and its log probability.
#[pyclass(frozen, get_all, module = "wrinklefree")]
#[derive(Clone)]
pub(crate) struct TokenLogprob {
    /// Token id.
    id: TokenId,
    /// Text of the token. A part of a character is shown as U+FFFD.
    text: String,
    /// Natural logarithm of the token's probability by the model's own logits.
    logprob: f32,
    /// Most probable tokens of the position and their log probabilities, highest first.
    top: Vec<(TokenId, f32)>,
}

#[pymethods]
impl TokenLogprob {
    fn __repr__(&self) -> String {
        format!("TokenLogprob(id={}, text={:?}, logprob={})", self.id, self.text, self.logprob)
    }
}

impl TokenLogprob {
    /// Describes a token.
    pub(crate) fn new(text: &ModelText, id: TokenId, logprobs: Logprobs) -> Self {
        let Logprobs { logprob, top } = logprobs;
        Self { id, text: text.tokenizer.decode(&[id], false), logprob, top }
    }
}

/// A completion.
#[pyclass(frozen, get_all, module = "wrinklefree")]
pub(crate) struct Completion {
    /// Text, without end tokens and stop strings.
    text: String,
    /// Thinking before the text. Empty unless the chat template declares thinking.
    reasoning: String,
    /// Token ids, an end token included.
    ids: Vec<TokenId>,
    /// Token ids of the prompt.
    prompt_ids: Vec<TokenId>,
    /// Reason of the end: `stop`, `length` or `grammar_dead_end`.
    finish_reason: String,
    /// Seed of the random numbers.
    seed: u64,
    /// Number of prompt tokens that were cached.
    cached_tokens: usize,
    /// Log probabilities of the tokens, if requested.
    logprobs: Option<Vec<TokenLogprob>>,
    /// Seconds until the first token, from the time of the call.
    prompt_seconds: f64,
    /// Seconds from the first to the last token.
    decode_seconds: f64,
}

#[pymethods]
impl Completion {
    fn __repr__(&self) -> String {
        let Self { text, ids, finish_reason, .. } = self;
        format!("Completion(text={text:?}, tokens={}, finish_reason={finish_reason:?})", ids.len())
    }

    fn __str__(&self) -> &str {
        &self.text
    }
}

/// Waits for the end of a stream.
pub(crate) async fn collect(
    mut stream: TextStream,
    model: &ModelText,
    with_logprobs: bool,
) -> Result<Completion, Error> {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let (mut logprobs, mut end) = (Vec::new(), None);
    while let Some(event) = stream.next_event().await {
        match event? {
            TextEvent::Text { reasoning: thought, text: more, token, .. } => {
                reasoning += &thought;
                text += &more;
                if let Some(SampledToken { token, logprobs: Some(found) }) = token {
                    logprobs.push(TokenLogprob::new(model, token, found));
                }
            }
            TextEvent::Done(finish) => end = Some(finish),
            _ => {}
        }
    }
    let timings = stream.timings();
    let reason = end.map_or("error", |Finish { reason, .. }| reason.name());
    Ok(Completion {
        text,
        reasoning,
        ids: stream.ids().to_vec(),
        prompt_ids: stream.prompt_ids().to_vec(),
        finish_reason: reason.to_owned(),
        seed: stream.seed(),
        cached_tokens: timings.cached_tokens,
        logprobs: with_logprobs.then_some(logprobs),
        prompt_seconds: timings.prompt.as_secs_f64(),
        decode_seconds: timings.decode.as_secs_f64(),
    })
}
