//! Responses, assembled from their chunks and checked against the protocol.

use wf_api::http::Error;
use wf_api::wire::{
    ChatChunk, ChatCompletion, ChatLogprobs, Completion, CompletionLogprobs, TokenId, Usage,
};

/// Log probabilities of a token and of the likeliest tokens at its position, as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogprobBits {
    pub(crate) own: Option<u32>,
    pub(crate) top: Vec<(String, u32)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) logprobs: Vec<LogprobBits>,
    pub(crate) text: String,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
}

/// A chunk of a streamed response, or an entire one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    /// True if it has a choice, not the usage alone.
    has_choice: bool,
    pub(crate) part: Response,
}

/// The reason why a response is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Http(#[from] Error),
    #[error("{0}")]
    Protocol(String),
}

impl Response {
    /// Appends a chunk.
    pub(crate) fn absorb(&mut self, Chunk { has_choice, part }: Chunk) -> Result<(), Failure> {
        let violation = |what: &str| Err(Failure::Protocol(what.to_owned()));
        if self.finish_reason.is_some() && has_choice {
            return violation("a chunk came after the finish_reason");
        }
        if self.usage.is_some() {
            return violation("a chunk came after the usage");
        }
        if part.usage.is_some() && self.finish_reason.is_none() && part.finish_reason.is_none() {
            return violation("the usage came before the finish_reason");
        }
        self.ids.extend(part.ids);
        self.logprobs.extend(part.logprobs);
        self.text.push_str(&part.text);
        self.finish_reason = part.finish_reason.or(self.finish_reason.take());
        self.usage = part.usage;
        Ok(())
    }

    /// Checks that a response that has ended is complete.
    pub(crate) fn check(&self, wants_logprobs: bool) -> Result<(), Failure> {
        let missing = |what: &str| Failure::Protocol(format!("response ended without {what}"));
        self.finish_reason.as_ref().ok_or_else(|| missing("a finish_reason"))?;
        let usage = self.usage.ok_or_else(|| missing("its usage"))?;
        let (ids, counted) = (self.ids.len(), usage.completion_tokens as usize);
        if ids != counted {
            return Err(Failure::Protocol(format!(
                "received {ids} token_ids, but the usage has {counted}"
            )));
        }
        if wants_logprobs && self.logprobs.len() != ids {
            let found = self.logprobs.len();
            return Err(Failure::Protocol(format!("received {found} logprobs for {ids} tokens")));
        }
        Ok(())
    }

    /// Returns the number of prompt tokens found in the cache, which depends on other requests.
    pub(crate) fn cached_tokens(&self) -> u32 {
        let details = self.usage.and_then(|usage| usage.prompt_tokens_details);
        details.map_or(0, |details| details.cached_tokens)
    }

    /// Returns the usage without the parts that depend on other requests.
    pub(crate) fn own_usage(&self) -> Option<Usage> {
        self.usage.map(|usage| Usage { prompt_tokens_details: None, ..usage })
    }
}

/// Text, token ids, log probabilities and finish reason of a choice.
type Choice = (Option<String>, Option<Vec<TokenId>>, Vec<LogprobBits>, Option<String>);

impl Chunk {
    fn new(usage: Option<Usage>, choices: impl Iterator<Item = Choice>) -> Self {
        let mut chunk = Self { has_choice: false, part: Response { usage, ..Response::default() } };
        for (text, ids, logprobs, finish_reason) in choices {
            chunk.has_choice = true;
            chunk.part.text += &text.unwrap_or_default();
            chunk.part.ids.extend(ids.unwrap_or_default());
            chunk.part.logprobs.extend(logprobs);
            chunk.part.finish_reason = finish_reason;
        }
        chunk
    }
}

impl From<ChatCompletion> for Chunk {
    fn from(whole: ChatCompletion) -> Self {
        let choices = whole.choices.into_iter();
        let choices = choices
            .map(|c| (c.message.content, c.token_ids, chat_bits(c.logprobs), c.finish_reason));
        Self::new(Some(whole.usage), choices)
    }
}

impl From<ChatChunk> for Chunk {
    fn from(part: ChatChunk) -> Self {
        let choices = part.choices.into_iter();
        let choices =
            choices.map(|c| (c.delta.content, c.token_ids, chat_bits(c.logprobs), c.finish_reason));
        Self::new(part.usage.flatten(), choices)
    }
}

/// An entire completion and a chunk of one have the same type.
impl From<Completion> for Chunk {
    fn from(part: Completion) -> Self {
        let choices = part.choices.into_iter();
        let choices =
            choices.map(|c| (Some(c.text), c.token_ids, bits(c.logprobs), c.finish_reason));
        Self::new(part.usage.flatten(), choices)
    }
}

fn bits(logprobs: Option<CompletionLogprobs>) -> Vec<LogprobBits> {
    let Some(logprobs) = logprobs else { return Vec::new() };
    let tops = logprobs.top_logprobs.into_iter().map(Option::unwrap_or_default);
    let tokens = logprobs.token_logprobs.into_iter().zip(tops);
    tokens
        .map(|(own, top)| LogprobBits {
            own: own.map(f32::to_bits),
            top: top.into_iter().map(|(name, value)| (name, value.to_bits())).collect(),
        })
        .collect()
}

fn chat_bits(logprobs: Option<ChatLogprobs>) -> Vec<LogprobBits> {
    let tokens = logprobs.map(|logprobs| logprobs.content).unwrap_or_default();
    tokens
        .into_iter()
        .map(|token| LogprobBits {
            own: Some(token.logprob.to_bits()),
            top: token.top_logprobs.into_iter().map(|t| (t.token, t.logprob.to_bits())).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(ids: &[TokenId], finish: Option<&str>, usage: Option<u32>) -> Chunk {
        let part = Response {
            ids: ids.to_vec(),
            finish_reason: finish.map(str::to_owned),
            usage: usage.map(|n| Usage { completion_tokens: n, ..Usage::default() }),
            ..Response::default()
        };
        Chunk { has_choice: usage.is_none(), part }
    }

    fn error_of(chunks: Vec<Chunk>) -> String {
        let mut response = Response::default();
        let absorbed = chunks.into_iter().try_for_each(|chunk| response.absorb(chunk));
        absorbed
            .and_then(|()| response.check(false))
            .map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn lost_and_duplicate_chunks_are_errors() {
        let end = || chunk(&[], Some("stop"), None);
        let usage = |n| chunk(&[], None, Some(n));
        assert_eq!(error_of(vec![chunk(&[1], None, None), end(), usage(1)]), "");
        for (chunks, word) in [
            (vec![chunk(&[1], None, None), usage(1)], "before the finish_reason"),
            (vec![chunk(&[1], None, None), end()], "without its usage"),
            (vec![chunk(&[1], None, None)], "without a finish_reason"),
            (vec![end(), end()], "after the finish_reason"),
            (vec![end(), usage(0), usage(0)], "after the usage"),
            (vec![end(), usage(1)], "received 0 token_ids, but the usage has 1"),
            (vec![chunk(&[1, 1], None, None), end(), usage(1)], "received 2 token_ids"),
        ] {
            let message = error_of(chunks);
            assert!(message.contains(word), "{word}: {message}");
        }
    }

    #[test]
    fn each_token_needs_its_logprob() {
        let mut response = Response::default();
        response.absorb(Chunk { has_choice: true, ..chunk(&[1], Some("stop"), Some(1)) }).unwrap();
        assert!(response.check(true).unwrap_err().to_string().contains("0 logprobs"));
    }
}
