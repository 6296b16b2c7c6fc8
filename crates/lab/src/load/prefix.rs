//! The speedup of the prefix cache: a prompt with and without its prefix in the cache.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use serde::Serialize;
use wf_api::http::Client;
use wf_api::wire::{TokenId, TokenizeRequest, TokenizeResponse};

use super::compare::{Difference, difference};
use super::request::{self, RequestSpec};
use super::workload::story;
use crate::random::Random;

/// Number of tokens after the shared prefix.
const SUFFIX_TOKENS: usize = 16;

/// Times to the first token with and without a cached prefix.
#[derive(Clone, Debug, Serialize)]
pub struct PrefixReport {
    /// Number of tokens of the shared prefix.
    pub tokens: usize,
    /// Milliseconds to the first token with an empty cache.
    pub first_ms: f64,
    /// Milliseconds to the first token with the prefix in the cache.
    pub second_ms: f64,
    /// Number of tokens found in the cache.
    pub cached_tokens: u32,
    /// Difference between the responses to the same prompt.
    pub difference: Option<Difference>,
}

/// Sends the same prompt twice: with an empty cache, and after another prompt that shares its first
/// `tokens` tokens.
pub(crate) async fn measure(client: &Client, tokens: usize) -> Result<PrefixReport> {
    let mut ids = story_ids(client, tokens + 2 * SUFFIX_TOKENS).await?;
    let other_suffix = ids.split_off(tokens + SUFFIX_TOKENS);
    let other = [&ids[..tokens], &other_suffix].concat();
    // Salts never used before, so nothing is cached for them.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let with_salt = |ids: &[TokenId], salt: &str| RequestSpec {
        cache_salt: Some(format!("wf-load-{now}-{salt}")),
        logprobs: true,
        ..RequestSpec::ids(ids.to_vec(), 16)
    };
    let stream = async |ids: &[TokenId], salt: &str| {
        let timed = request::respond(client, &with_salt(ids, salt), true).await;
        timed.map_err(|failure| anyhow!("{failure}"))
    };
    let first = stream(&ids, "first").await?;
    stream(&other, "second").await?;
    let second = stream(&ids, "second").await?;
    let no_tokens = || anyhow!("response has no tokens");
    Ok(PrefixReport {
        tokens,
        first_ms: first.first_token_ms().ok_or_else(no_tokens)?,
        second_ms: second.first_token_ms().ok_or_else(no_tokens)?,
        cached_tokens: second.response.cached_tokens(),
        difference: difference(&first.response, &second.response),
    })
}

/// Returns the first `count` tokens of a story.
pub(crate) async fn story_ids(client: &Client, count: usize) -> Result<Vec<TokenId>> {
    // A word has at least one token.
    let prompt = Some(story(&mut Random::new(0, count as u64), count));
    let request = TokenizeRequest { prompt, ..TokenizeRequest::default() };
    let answer: TokenizeResponse = client.post_json("/tokenize", &request).await?;
    let mut ids = answer.tokens;
    ids.truncate(count);
    Ok(ids)
}
