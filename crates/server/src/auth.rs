//! Who may use the server: keys, kept and compared as digests.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use axum::http::{HeaderMap, header};

/// The keys that open the server. Without any, it is open.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// These keys.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(keys.into_iter().map(digest).collect())
    }

    /// Whether anybody may come in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who is calling: nothing if the key is missing or wrong.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.is_empty() {
            return Some(Caller([0; 32]));
        }
        let given = digest(given_key(headers)?);
        // Every key is compared whole, so the time tells nothing about any of them.
        let known = self.0.iter().fold(Choice::from(0), |known, key| known | key.ct_eq(&given));
        bool::from(known).then_some(Caller(given))
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// Who sent a request. Callers with different keys share nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Caller([u8; 32]);

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
    fn a_key_opens_and_nothing_else_does() {
        let keys = Keys::new(["one", "two"]);
        let opens = |name, value: &str| keys.check(&headers(name, value)).is_some();
        assert!(opens("authorization", "Bearer one"));
        assert!(opens("authorization", "bearer two"));
        assert!(opens("x-api-key", "two"));
        for wrong in ["Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", ""] {
            assert!(!opens("authorization", wrong), "{wrong:?}");
        }
        assert!(keys.check(&HeaderMap::new()).is_none());
        assert!(Keys::default().check(&HeaderMap::new()).is_some());
    }

    #[test]
    fn callers_are_told_apart_by_their_keys() {
        let keys = Keys::new(["one", "two"]);
        let caller = |key: &str| keys.check(&headers("x-api-key", key));
        assert!(caller("one") == caller("one") && caller("one") != caller("two"));
        assert!(!format!("{keys:?}").contains("one"));
    }
}
