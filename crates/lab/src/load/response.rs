//! Responses, assembled from their chunks and checked against the protocol.

use wf_api::http::Error;
use wf_api::wire::{ChatChunk, ChatCompletion, ChatLogprobs, Completion, TokenId, Usage};

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
    pub(crate) has_choice: bool,
    pub(crate) ids: Vec<TokenId>,
    pub(crate) logprobs: Vec<LogprobBits>,
    pub(crate) text: String,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
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
    pub(crate) fn absorb(&mut self, chunk: Chunk) -> Result<(), Failure> {
        let violation = |what: &str| Err(Failure::Protocol(what.to_owned()));
        if self.finish_reason.is_some() && chunk.has_choice {
            return violation("a chunk came after the finish_reason");
        }
        if self.usage.is_some() {
            return violation("a chunk came after the usage");
        }
        if chunk.usage.is_some() && self.finish_reason.is_none() && chunk.finish_reason.is_none() {
            return violation("the usage came before the finish_reason");
        }
        self.ids.extend(chunk.ids);
        self.logprobs.extend(chunk.logprobs);
        self.text.push_str(&chunk.text);
        self.finish_reason = chunk.finish_reason.or(self.finish_reason.take());
        self.usage = chunk.usage;
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

impl Chunk {
    pub(crate) fn of_chat(answer: ChatCompletion) -> Self {
        let mut chunk = Self { usage: Some(answer.usage), ..Self::default() };
        for choice in answer.choices {
            chunk.has_choice = true;
            chunk.text += choice.message.content.as_deref().unwrap_or_default();
            chunk.ids.extend(choice.token_ids.unwrap_or_default());
            chunk.logprobs.extend(of_chat_logprobs(choice.logprobs));
            chunk.finish_reason = choice.finish_reason;
        }
        chunk
    }

    pub(crate) fn of_chat_chunk(event: ChatChunk) -> Self {
        let mut chunk = Self { usage: event.usage.flatten(), ..Self::default() };
        for choice in event.choices {
            chunk.has_choice = true;
            chunk.text += choice.delta.content.as_deref().unwrap_or_default();
            chunk.ids.extend(choice.token_ids.unwrap_or_default());
            chunk.logprobs.extend(of_chat_logprobs(choice.logprobs));
            chunk.finish_reason = choice.finish_reason;
        }
        chunk
    }

    /// Converts an entire completion or a chunk of one: both have the same type.
    pub(crate) fn of_completion(answer: Completion) -> Self {
        let mut chunk = Self { usage: answer.usage.flatten(), ..Self::default() };
        for choice in answer.choices {
            chunk.has_choice = true;
            chunk.text += &choice.text;
            chunk.ids.extend(choice.token_ids.unwrap_or_default());
            chunk.finish_reason = choice.finish_reason;
            let Some(logprobs) = choice.logprobs else { continue };
            let tops = logprobs.top_logprobs.into_iter().map(Option::unwrap_or_default);
            for (own, top) in logprobs.token_logprobs.into_iter().zip(tops) {
                let own = own.map(f32::to_bits);
                let top = top.into_iter().map(|(name, value)| (name, value.to_bits())).collect();
                chunk.logprobs.push(LogprobBits { own, top });
            }
        }
        chunk
    }
}

fn of_chat_logprobs(logprobs: Option<ChatLogprobs>) -> impl Iterator<Item = LogprobBits> {
    let tokens = logprobs.map(|logprobs| logprobs.content).unwrap_or_default();
    tokens.into_iter().map(|token| {
        let top = token.top_logprobs.into_iter();
        let top = top.map(|other| (other.token, other.logprob.to_bits())).collect();
        LogprobBits { own: Some(token.logprob.to_bits()), top }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(ids: &[TokenId], finish: Option<&str>, usage: Option<u32>) -> Chunk {
        Chunk {
            has_choice: usage.is_none(),
            ids: ids.to_vec(),
            finish_reason: finish.map(str::to_owned),
            usage: usage.map(|n| Usage { completion_tokens: n, ..Usage::default() }),
            ..Chunk::default()
        }
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
