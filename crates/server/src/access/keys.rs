//! API keys, stored and compared as digests, and what each may use.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::usage::{KeyLimits, Usage};

/// An API key and what it may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Name in logs and metrics. Keys with one name are one caller.
    pub name: String,
    digest: KeyDigest,
    /// Limits on its requests.
    pub limits: KeyLimits,
    /// Names of the models that it may use; all if absent.
    pub models: Option<Vec<String>>,
    /// True if its priorities count among all callers, not only among its own requests.
    pub may_prioritize: bool,
    /// True if it may use the routes for operators.
    pub is_admin: bool,
}

type KeyDigest = [u8; 32];

/// Options that may follow a key in a file.
const OPTIONS: [&str; 8] = [
    "name",
    "requests",
    "requests-per-minute",
    "tokens-per-minute",
    "kv-share",
    "models",
    "priority",
    "admin",
];

const MAX_NAME_LEN: usize = 64;

impl Key {
    /// Creates a key without limits, named after its digest.
    pub fn new(key: &str) -> Self {
        let digest = digest(key);
        let [a, b, c, d, ..] = digest;
        Self {
            name: format!("key-{a:02x}{b:02x}{c:02x}{d:02x}"),
            digest,
            limits: KeyLimits::default(),
            models: None,
            may_prioritize: false,
            is_admin: false,
        }
    }

    /// Creates a key for operators.
    pub fn admin(key: &str) -> Self {
        Self { is_admin: true, ..Self::new(key) }
    }

    /// Parses a line of a file: a key, then options such as `name=alice requests-per-minute=60`.
    ///
    /// # Errors
    ///
    /// If an option is unknown or its value is invalid. The message does not contain the key.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (text, options) = Self::split(line);
        let mut key = Self::new(text);
        options.into_iter().try_for_each(|(name, value)| key.set(name, value))?;
        Ok(key)
    }

    /// Splits a line of a file into the key and the names and values of its options.
    pub fn split(line: &str) -> (&str, Vec<(&str, &str)>) {
        let mut text = line.trim();
        let mut options = Vec::new();
        // The first word belongs to the key, whatever it contains.
        while let Some((before, word)) = text.rsplit_once(char::is_whitespace)
            && let Some(option) = word.split_once('=')
        {
            options.push(option);
            text = before.trim_end();
        }
        (text, options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let invalid = |must: &str| format!("{name} is {value:?}: must be {must}");
        let count = || match value.parse::<u32>() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(invalid("a whole number of at least 1")),
        };
        let flag = || value.parse::<bool>().map_err(|_| invalid("true or false"));
        match name {
            "name" => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                if !(1..=MAX_NAME_LEN).contains(&value.len()) || !value.chars().all(is_plain) {
                    return Err(invalid("1 to 64 letters, digits, hyphens, dots and underscores"));
                }
                self.name = value.to_owned();
            }
            "requests" => self.limits.requests = Some(count()? as usize),
            "requests-per-minute" => self.limits.requests_per_minute = Some(count()?),
            "tokens-per-minute" => self.limits.tokens_per_minute = Some(count()?),
            "kv-share" => {
                let share = value.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
                self.limits.kv_share =
                    Some(share.ok_or_else(|| invalid("a number above 0 and at most 1"))?);
            }
            "models" => {
                let names: Vec<_> = value.split(',').map(str::to_owned).collect();
                if names.iter().any(String::is_empty) {
                    return Err(invalid("names of models, separated by commas"));
                }
                self.models = Some(names);
            }
            "priority" => self.may_prioritize = flag()?,
            "admin" => self.is_admin = flag()?,
            _ => {
                let names = OPTIONS.join(", ");
                return Err(format!("unknown option {name:?}: must be one of {names}"));
            }
        }
        Ok(())
    }
}

/// A key, and what it has used.
#[derive(Debug)]
pub(crate) struct KnownKey {
    pub(crate) key: Key,
    pub(crate) usage: Arc<Usage>,
}

impl KnownKey {
    pub(crate) fn digest(&self) -> [u8; 32] {
        self.key.digest
    }
}

/// API keys. Unless there is one that is not for operators, the server is open to everyone.
#[derive(Clone, Default)]
pub struct Keys(Vec<Arc<KnownKey>>);

impl Keys {
    /// Creates a set of keys without limits.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_keys(keys.into_iter().map(Key::new))
    }

    /// Creates a set of keys.
    pub fn from_keys(keys: impl IntoIterator<Item = Key>) -> Self {
        let known = |key| Arc::new(KnownKey { key, usage: Arc::default() });
        Self(keys.into_iter().map(known).collect())
    }

    /// Lists the names of keys with the models that they list.
    pub(crate) fn listed_models(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.0.iter().map(|known| &known.key);
        keys.flat_map(|key| {
            let models = key.models.iter().flatten();
            models.map(|model| (key.name.as_str(), model.as_str()))
        })
    }

    /// Returns `true` if there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if requests need no key.
    pub fn is_open(&self) -> bool {
        self.0.iter().all(|known| known.key.is_admin)
    }

    /// Replaces the keys. Those that stay keep what they have used.
    pub(crate) fn replaced_by(&self, new: &Self) -> Self {
        let keep_usage = |new: &Arc<KnownKey>| {
            let old = self.0.iter().find(|old| old.digest() == new.digest());
            let usage = &old.unwrap_or(new).usage;
            Arc::new(KnownKey { key: new.key.clone(), usage: Arc::clone(usage) })
        };
        Self(new.0.iter().map(keep_usage).collect())
    }

    /// Returns the first key whose digest is accepted.
    pub(crate) fn find(&self, is_accepted: impl Fn([u8; 32]) -> bool) -> Option<Arc<KnownKey>> {
        self.0.iter().find(|known| is_accepted(known.digest())).cloned()
    }

    /// Returns the key of a request. The error means that a key is missing or wrong.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<Option<Arc<KnownKey>>, WrongKey> {
        let given = given_key(headers).map(digest);
        // Every key is compared in full, so the time reveals nothing about any of them.
        let known = given.and_then(|given| {
            self.0.iter().fold(None, |found, known| {
                if bool::from(known.digest().ct_eq(&given)) { Some(known) } else { found }
            })
        });
        match known {
            None if !self.is_open() => Err(WrongKey),
            known => Ok(known.cloned()),
        }
    }
}

/// A key is required, and missing or wrong.
#[derive(Debug)]
pub(crate) struct WrongKey;

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

fn digest(key: &str) -> KeyDigest {
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
        let accepts = |name, value: &str| keys.check(&headers(name, value)).is_ok();
        assert!(accepts("authorization", "Bearer one"));
        assert!(accepts("authorization", "bearer two"));
        assert!(accepts("x-api-key", "two"));
        for wrong in ["Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", ""] {
            assert!(!accepts("authorization", wrong), "{wrong:?}");
        }
        assert!(keys.check(&HeaderMap::new()).is_err());
        assert!(Keys::default().check(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn a_key_for_operators_does_not_close_the_server() {
        let keys = Keys::from_keys([Key::admin("root")]);
        assert!(keys.is_open() && keys.check(&HeaderMap::new()).unwrap().is_none());
        let known = keys.check(&headers("x-api-key", "root")).unwrap().unwrap();
        assert!(known.key.is_admin);
        let keys = Keys::from_keys([Key::admin("root"), Key::new("one")]);
        assert!(!keys.is_open() && keys.check(&HeaderMap::new()).is_err());
    }

    #[test]
    fn models_are_listed_with_the_names_of_their_keys() {
        let key = |line| Key::parse(line).unwrap();
        let keys = [key("one name=alice models=a,b"), key("two name=bob"), key("three models=b")];
        let keys = Keys::from_keys(keys);
        let listed: Vec<_> = keys.listed_models().collect();
        let unnamed = keys.0[2].key.name.as_str();
        assert_eq!(listed, [("alice", "a"), ("alice", "b"), (unnamed, "b")]);
    }

    #[test]
    fn lines_have_a_key_and_options() {
        let line = " open sesame  name=alice requests=2 requests-per-minute=60 \
                    tokens-per-minute=9000 kv-share=0.25 models=a,b priority=true admin=false ";
        let key = Key::parse(line).unwrap();
        assert_eq!(key.digest, digest("open sesame"));
        assert_eq!((key.name.as_str(), key.may_prioritize, key.is_admin), ("alice", true, false));
        let limits = KeyLimits {
            requests: Some(2),
            requests_per_minute: Some(60),
            tokens_per_minute: Some(9000),
            kv_share: Some(0.25),
        };
        assert_eq!(key.limits, limits);
        assert_eq!(key.models, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(Key::parse("c2VjcmV0==").unwrap(), Key::new("c2VjcmV0=="));
        for (line, word) in [
            ("secret rpm=3", "unknown option \"rpm\""),
            ("secret requests=0", "at least 1"),
            ("secret requests=-1", "at least 1"),
            ("secret kv-share=0", "above 0"),
            ("secret kv-share=nan", "above 0"),
            ("secret kv-share=1.5", "at most 1"),
            ("secret models=a,,b", "separated by commas"),
            ("secret admin=yes", "true or false"),
            ("secret name=a/b", "letters"),
        ] {
            let message = Key::parse(line).unwrap_err();
            assert!(message.contains(word) && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn names_reveal_no_keys() {
        let keys = Keys::new(["one"]);
        let known = keys.check(&headers("x-api-key", "one")).unwrap().unwrap();
        assert!(known.key.name.starts_with("key-") && !known.key.name.contains("one"));
        assert!(!format!("{keys:?}").contains("one"));
    }

    #[test]
    fn keys_that_stay_keep_what_they_used() {
        let old = Keys::new(["one", "two"]);
        let new = old.replaced_by(&Keys::from_keys([Key::parse("two requests=1").unwrap()]));
        assert!(Arc::ptr_eq(&old.0[1].usage, &new.0[0].usage));
        assert_eq!(new.0[0].key.limits.requests, Some(1));
    }
}
