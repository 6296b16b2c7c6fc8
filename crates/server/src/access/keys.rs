//! API keys, stored and compared as digests.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use axum::http::{HeaderMap, header};

use super::caller::Caller;

/// API keys. Without any, the server is open to everyone.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// Creates the set of accepted keys.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(keys.into_iter().map(digest).collect())
    }

    /// Returns `true` if requests need no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Identifies the caller, or returns `None` if the key is missing or wrong.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.is_empty() {
            return Some(Caller::new(None));
        }
        let given = digest(given_key(headers)?);
        // Every key is compared in full, so the time reveals nothing about any of them.
        let known = self.0.iter().fold(Choice::from(0), |known, key| known | key.ct_eq(&given));
        bool::from(known).then_some(Caller::new(Some(given)))
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

fn given_key(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name)?.to_str().ok();
    let bearer = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn only_configured_keys_are_accepted() {
        let keys = Keys::new(["one", "two"]);
        let accepts = |name, value: &str| keys.check(&headers(name, value)).is_some();
        assert!(accepts("authorization", "Bearer one"));
        assert!(accepts("authorization", "bearer two"));
        assert!(accepts("x-api-key", "two"));
        for wrong in ["Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", ""] {
            assert!(!accepts("authorization", wrong), "{wrong:?}");
        }
        assert!(keys.check(&HeaderMap::new()).is_none());
        assert!(Keys::default().check(&HeaderMap::new()).is_some());
    }

    #[test]
    fn callers_differ_by_their_keys() {
        let keys = Keys::new(["one", "two"]);
        let caller = |key: &str| keys.check(&headers("x-api-key", key));
        assert!(caller("one") == caller("one") && caller("one") != caller("two"));
        assert!(!format!("{keys:?}").contains("one"));
    }
}
