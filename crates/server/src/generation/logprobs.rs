//! Names and logprobs of tokens in responses.

use std::fmt::Write;

use wf_api::wire::{TokenLogprob, TopLogprob};
use wf_engine::{Logprobs, SampledToken, TextEvent, TokenId};
use wf_text::Tokenizer;

/// Stands for an impossible token: JSON has no infinity.
const IMPOSSIBLE: f32 = -9999.0;

/// Returns a number that JSON can represent.
pub(crate) fn finite(logprob: f32) -> f32 {
    logprob.max(IMPOSSIBLE)
}

pub(crate) fn token_bytes(tokenizer: &Tokenizer, token: TokenId) -> &[u8] {
    let bytes = tokenizer.token_bytes(token).filter(|bytes| !bytes.is_empty());
    bytes.or_else(|| tokenizer.token_text(token).map(str::as_bytes)).unwrap_or_default()
}

/// Returns the text of a token, or `bytes:` and its bytes in hex if they are not UTF-8.
pub(crate) fn token_name(tokenizer: &Tokenizer, token: TokenId) -> String {
    let bytes = token_bytes(tokenizer, token);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "\\x{byte:02x}");
            name
        }),
    }
}

/// Describes a token, and the most likely ones at its position.
pub(crate) fn token_logprob(
    tokenizer: &Tokenizer,
    token: TokenId,
    Logprobs { logprob, top }: &Logprobs,
) -> TokenLogprob {
    let one = |&(token, logprob): &(TokenId, f32)| TopLogprob {
        token: token_name(tokenizer, token),
        logprob: finite(logprob),
        bytes: Some(token_bytes(tokenizer, token).to_vec()),
    };
    let TopLogprob { token, logprob, bytes } = one(&(token, *logprob));
    TokenLogprob { token, logprob, bytes, top_logprobs: top.iter().map(one).collect() }
}

/// Describes the token of an event, if it is part of the answer and logprobs are requested.
pub(crate) fn answer_logprob(tokenizer: &Tokenizer, event: &TextEvent) -> Option<TokenLogprob> {
    match event {
        TextEvent::Text {
            token: Some(SampledToken { token, logprobs }),
            is_reasoning: false,
            ..
        } => Some(token_logprob(tokenizer, *token, logprobs.as_ref()?)),
        _ => None,
    }
}
