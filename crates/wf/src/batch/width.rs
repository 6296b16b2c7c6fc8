//! The number of requests in flight, where `--concurrency` does not set it.

use serde::Deserialize;
use wf_api::http::Client;

/// Width of small models and of servers that do not report theirs.
const MIN_WIDTH: usize = 32;
/// Maximum width. A pass of one row takes 7.8 ms and one of 32 rows takes 27.1 ms (docs/benchmarks.md), so a row adds
/// 0.62 ms: 64 rows gain 15 % over 32, 128 rows another 8 %, and 256 rows less than 5 % more.
pub(super) const MAX_WIDTH: usize = 128;
/// Tokens of K/V cache that a request has to find, or requests would be preempted and computed again.
const TOKENS_PER_REQUEST: usize = 512;

/// Returns the number of requests for a K/V cache of `kv_tokens` tokens.
pub(super) fn of_cache(kv_tokens: usize) -> usize {
    (kv_tokens / TOKENS_PER_REQUEST).clamp(MIN_WIDTH, MAX_WIDTH)
}

#[derive(Deserialize)]
struct Props {
    total_slots: usize,
}

/// Returns the number of requests that a server runs at once, which servers of llama.cpp and this one report.
pub(super) async fn of_server(client: &Client) -> usize {
    let props = client.get_json::<Props>("/props").await;
    props.map_or(MIN_WIDTH, |props| props.total_slots.clamp(1, MAX_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_follows_the_cache_within_limits() {
        for (kv_tokens, width) in [
            (0, MIN_WIDTH),
            (8192, MIN_WIDTH),
            (64 * TOKENS_PER_REQUEST, 64),
            (usize::MAX, MAX_WIDTH),
        ] {
            assert_eq!(of_cache(kv_tokens), width, "{kv_tokens}");
        }
    }
}
