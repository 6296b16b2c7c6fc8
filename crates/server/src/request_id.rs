//! A name for each request, the client's own if it gave a sensible one.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header it comes and goes in.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest name taken over.
const LONGEST: usize = 128;

/// The name of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    /// The name that the client gave, or a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|id| id.to_str().ok());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/+=".contains(c);
        match given {
            Some(id) if !id.is_empty() && id.len() <= LONGEST && id.chars().all(is_plain) => {
                Self(id.into())
            }
            _ => Self::draw(),
        }
    }

    /// A new one.
    pub(crate) fn draw() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // The standard library keys each hasher differently, from the system's randomness.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let word = || RandomState::new().hash_one(count);
        Self(format!("{:016x}{:016x}", word(), word()).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).unwrap_or(HeaderValue::from_static("invalid"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(given: &[u8]) -> RequestId {
        let value = HeaderValue::from_bytes(given).unwrap();
        RequestId::of(&HeaderMap::from_iter([(HEADER, value)]))
    }

    #[test]
    fn a_plain_name_is_kept_and_others_are_replaced() {
        assert_eq!(id(b"abc-1.2_3").as_str(), "abc-1.2_3");
        let longest = [b'x'; LONGEST];
        assert_eq!(id(&longest).as_str().as_bytes(), longest);
        for other in [&b"a b"[..], b"", b"\xff", b"a\tb", b"<script>", &[b'x'; LONGEST + 1]] {
            assert_eq!(id(other).as_str().len(), 32, "{other:?}");
        }
        assert_ne!(RequestId::draw(), RequestId::draw());
    }
}
