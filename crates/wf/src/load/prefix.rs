//! What the prefix cache saves: a prompt read for the first time, and after one that begins alike.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use serde::Serialize;
use wf_client::http::Client;
use wf_client::wire::{TokenId, TokenizeRequest, TokenizeResponse};

use super::ask::{self, Ask, Heard};
use super::compare::{Difference, difference};
use super::mix::story;
use crate::bench::random::Random;

/// Tokens that follow the common beginning.
const ENDING_TOKENS: usize = 16;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Prefix {
    /// Tokens that the two prompts have in common.
    pub(crate) tokens: usize,
    /// Milliseconds to the first token when nothing was in the cache.
    pub(crate) first_ms: f64,
    /// The same when the common beginning was.
    pub(crate) second_ms: f64,
    /// Tokens that came out of the cache then.
    pub(crate) cached_tokens: u32,
    /// Where the replies to the same prompt differ, if they do.
    pub(crate) difference: Option<Difference>,
}

/// Asks for the same reply twice: with an empty cache, and after a prompt that has `tokens` tokens in
/// common.
pub(crate) async fn measure(client: &Client, tokens: usize) -> Result<Prefix> {
    let mut ids = story_ids(client, tokens + 2 * ENDING_TOKENS).await?;
    let other_ending = ids.split_off(tokens + ENDING_TOKENS);
    let other = [&ids[..tokens], &other_ending].concat();
    // Nobody has ever used these salts, so nothing is in the cache for them.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let with_salt = |ids: &[TokenId], salt: &str| Ask {
        cache_salt: Some(format!("wf-load-{now}-{salt}")),
        logprobs: true,
        ..Ask::ids(ids.to_vec(), 16)
    };
    let first = listen(client, &with_salt(&ids, "first")).await?;
    listen(client, &with_salt(&other, "second")).await?;
    let second = listen(client, &with_salt(&ids, "second")).await?;
    let no_tokens = || anyhow!("the reply had no tokens");
    Ok(Prefix {
        tokens,
        first_ms: first.first_token_ms().ok_or_else(no_tokens)?,
        second_ms: second.first_token_ms().ok_or_else(no_tokens)?,
        cached_tokens: second.reply.cached_tokens(),
        difference: difference(&first.reply, &second.reply),
    })
}

async fn listen(client: &Client, ask: &Ask) -> Result<Heard> {
    let mut heard = Heard::new();
    let result = ask::send(client, ask, true, None, &mut heard).await;
    result.map(|()| heard).map_err(|failure| anyhow!("{failure}"))
}

/// The first `count` tokens of a story.
pub(crate) async fn story_ids(client: &Client, count: usize) -> Result<Vec<TokenId>> {
    // A word has a token at least.
    let prompt = Some(story(&mut Random::new(0, count as u64), count));
    let request = TokenizeRequest { prompt, ..TokenizeRequest::default() };
    let answer: TokenizeResponse = client.post_json("/tokenize", &request).await?;
    let mut ids = answer.tokens;
    ids.truncate(count);
    Ok(ids)
}
