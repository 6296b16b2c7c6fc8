//! Usage of a key against its limits: requests at once, requests and tokens of the last minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

const MINUTE: Duration = Duration::from_secs(60);

/// Limits of a key. Absent ones do not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyLimits {
    /// Maximum number of requests at once.
    pub requests: Option<usize>,
    /// Maximum number of requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of tokens a minute, of prompts and completions.
    pub tokens_per_minute: Option<u32>,
    /// Maximum share of the KV cache.
    pub kv_share: Option<f64>,
}

/// Refusal of a request: the limit that it would exceed, and the time until it may be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    /// The limit that is reached, in words.
    pub(crate) limit: String,
    /// Seconds after which the request should be sent again.
    pub(crate) retry_after: u32,
}

/// Use of one key. It outlives a change of the limits.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    at_once: usize,
    requests: Spent,
    tokens: Spent,
}

/// Amount that was spent and is not restored yet. A limit of n a minute restores n in a minute, evenly.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    amount: f64,
    since: Option<Instant>,
}

impl Spent {
    fn at(self, per_minute: u32, now: Instant) -> f64 {
        let elapsed =
            self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let restored = f64::from(per_minute) * elapsed.as_secs_f64() / MINUTE.as_secs_f64();
        (self.amount - restored).max(0.0)
    }

    fn spend(&mut self, amount: f64, per_minute: u32, now: Instant) {
        *self = Self { amount: self.at(per_minute, now) + amount, since: Some(now) };
    }

    /// Returns the time until at least one more is left.
    fn wait(self, per_minute: u32, now: Instant) -> Duration {
        let missing = self.at(per_minute, now) + 1.0 - f64::from(per_minute);
        MINUTE.mul_f64((missing / f64::from(per_minute.max(1))).max(0.0))
    }
}

/// A request in progress. Its place is free again on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    usage: Arc<Usage>,
    tokens_per_minute: Option<u32>,
}

impl Permit {
    /// Charges tokens of prompts and completions.
    pub(crate) fn spend_tokens(&self, tokens: usize) {
        if let Some(limit) = self.tokens_per_minute {
            self.usage.state().tokens.spend(tokens as f64, limit, Instant::now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.usage.state().at_once -= 1;
    }
}

impl Usage {
    fn state(&self) -> MutexGuard<'_, State> {
        // No operation on the state can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request if all limits allow one more.
    ///
    /// The tokens of a request are known only at its end: it begins while any are left, and what it spends
    /// beyond is missing afterwards. So no request is too large for a limit.
    pub(crate) fn begin(
        self: &Arc<Self>,
        limits: &KeyLimits,
        now: Instant,
    ) -> Result<Permit, Refusal> {
        let mut state = self.state();
        let refuse = |code, limit: String, wait: Duration| {
            let retry_after = wait.as_secs_f64().ceil().max(1.0) as u32;
            Err(Refusal { code, limit, retry_after })
        };
        if let Some(max) = limits.requests.filter(|max| state.at_once >= *max) {
            let limit = format!("{max} requests at once");
            return refuse("concurrency_limit_exceeded", limit, Duration::ZERO);
        }
        for (spent, limit, unit) in [
            (state.requests, limits.requests_per_minute, "requests"),
            (state.tokens, limits.tokens_per_minute, "tokens"),
        ] {
            let Some(max) = limit else { continue };
            let wait = spent.wait(max, now);
            if !wait.is_zero() {
                return refuse("rate_limit_exceeded", format!("{max} {unit} a minute"), wait);
            }
        }
        if let Some(max) = limits.requests_per_minute {
            state.requests.spend(1.0, max, now);
        }
        state.at_once += 1;
        let tokens_per_minute = limits.tokens_per_minute;
        Ok(Permit { usage: Arc::clone(self), tokens_per_minute })
    }

    /// Adds the usual headers: limit, rest, and time until all is restored.
    pub(crate) fn write_headers(&self, limits: &KeyLimits, now: Instant, headers: &mut HeaderMap) {
        let state = self.state();
        for (spent, limit, [limit_name, rest_name, reset_name]) in [
            (state.requests, limits.requests_per_minute, REQUEST_HEADERS),
            (state.tokens, limits.tokens_per_minute, TOKEN_HEADERS),
        ] {
            let Some(max) = limit else { continue };
            let used = spent.at(max, now);
            let rest = (f64::from(max) - used).max(0.0).floor() as u32;
            let reset = MINUTE.as_secs_f64() * used / f64::from(max.max(1));
            headers.insert(HeaderName::from_static(limit_name), HeaderValue::from(max));
            headers.insert(HeaderName::from_static(rest_name), HeaderValue::from(rest));
            let reset = HeaderValue::from_str(&format!("{}s", reset.ceil()));
            headers.extend(reset.ok().map(|reset| (HeaderName::from_static(reset_name), reset)));
        }
    }
}

const REQUEST_HEADERS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
const TOKEN_HEADERS: [&str; 3] =
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(
        usage: &Arc<Usage>,
        limits: &KeyLimits,
        now: Instant,
    ) -> Result<Permit, (String, u32)> {
        usage.begin(limits, now).map_err(|refusal| (refusal.limit, refusal.retry_after))
    }

    #[test]
    fn requests_at_once_are_limited() {
        let limits = KeyLimits { requests: Some(2), ..KeyLimits::default() };
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let two = [begin(&usage, &limits, now), begin(&usage, &limits, now)];
        assert!(two.iter().all(Result::is_ok));
        let refusal = begin(&usage, &limits, now).unwrap_err();
        assert_eq!(refusal, ("2 requests at once".to_owned(), 1));
        drop(two);
        assert!(begin(&usage, &limits, now).is_ok());
    }

    #[test]
    fn requests_of_a_minute_are_restored_evenly() {
        let limits = KeyLimits { requests_per_minute: Some(6), ..KeyLimits::default() };
        let (usage, start) = (Arc::new(Usage::default()), Instant::now());
        let at = |seconds| begin(&usage, &limits, start + Duration::from_secs(seconds)).map(drop);
        assert!((0..6).all(|_| at(0).is_ok()));
        assert_eq!(at(0), Err(("6 requests a minute".to_owned(), 10)));
        assert_eq!(at(7).unwrap_err().1, 3);
        assert_eq!((at(10), at(10).is_err()), (Ok(()), true));
        let mut headers = HeaderMap::new();
        usage.write_headers(&limits, start + Duration::from_secs(20), &mut headers);
        assert_eq!(headers["x-ratelimit-limit-requests"], "6");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "1");
        assert_eq!(headers["x-ratelimit-reset-requests"], "50s");
        assert!(!headers.contains_key("x-ratelimit-limit-tokens"));
    }

    #[test]
    fn tokens_beyond_the_limit_are_missing_afterwards() {
        let limits = KeyLimits { tokens_per_minute: Some(600), ..KeyLimits::default() };
        let usage = Arc::new(Usage::default());
        let permit = usage.begin(&limits, Instant::now()).unwrap();
        permit.spend_tokens(900);
        let (limit, wait) = begin(&usage, &limits, Instant::now()).unwrap_err();
        assert_eq!(limit, "600 tokens a minute");
        assert!((29..=31).contains(&wait), "{wait}");
        assert!(begin(&usage, &limits, Instant::now() + Duration::from_secs(32)).is_ok());
    }
}
