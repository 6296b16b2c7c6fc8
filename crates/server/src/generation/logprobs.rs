//! Names and logprobs of tokens in responses.

use std::fmt::Write;

use wf_engine::TokenId;
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
