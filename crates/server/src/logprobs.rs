//! How likely tokens were, in the words of each dialect.

use std::collections::BTreeMap;
use std::fmt::Write;

use wf_client::wire::{CompletionLogprobs, TokenLogprob, TopLogprob};
use wf_engine::{Logprobs, TokenId};
use wf_text::Tokenizer;

/// What stands for "impossible": JSON has no infinity.
const IMPOSSIBLE: f32 = -9999.0;

/// A number that JSON has.
pub(crate) fn finite(logprob: f32) -> f32 {
    logprob.max(IMPOSSIBLE)
}

/// The bytes of a token.
fn bytes(tokenizer: &Tokenizer, token: TokenId) -> &[u8] {
    let piece = tokenizer.piece(token).filter(|piece| !piece.is_empty());
    piece.or_else(|| tokenizer.token_text(token).map(str::as_bytes)).unwrap_or_default()
}

/// The text of a token. Bytes that are no text by themselves are written out.
pub(crate) fn name(tokenizer: &Tokenizer, token: TokenId) -> String {
    let bytes = bytes(tokenizer, token);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "\\x{byte:02x}");
            name
        }),
    }
}

/// As a chat tells it.
pub(crate) fn of_chat(
    tokenizer: &Tokenizer,
    token: TokenId,
    Logprobs { logprob, top }: &Logprobs,
) -> TokenLogprob {
    let one = |&(token, logprob): &(TokenId, f32)| TopLogprob {
        token: name(tokenizer, token),
        logprob: finite(logprob),
        bytes: Some(bytes(tokenizer, token).to_vec()),
    };
    let TopLogprob { token, logprob, bytes } = one(&(token, *logprob));
    TokenLogprob { token, logprob, bytes, top_logprobs: top.iter().map(one).collect() }
}

/// Adds a token to the lists that a completion has. The first token of a prompt has no likelihood.
pub(crate) fn push_completion(
    lists: &mut CompletionLogprobs,
    tokenizer: &Tokenizer,
    token: TokenId,
    offset: usize,
    logprobs: Option<&Logprobs>,
) {
    let top = |logprobs: &Logprobs| -> BTreeMap<String, f32> {
        let top = logprobs.top.iter();
        top.map(|&(token, logprob)| (name(tokenizer, token), finite(logprob))).collect()
    };
    lists.tokens.push(name(tokenizer, token));
    lists.text_offset.push(offset);
    lists.token_logprobs.push(logprobs.map(|logprobs| finite(logprobs.logprob)));
    lists.top_logprobs.push(logprobs.map(top));
}
