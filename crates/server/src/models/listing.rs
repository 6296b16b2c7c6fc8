//! Facts about a model that are known before it is loaded, and the choice of a model by its name.

use crate::access::Caller;
use crate::error::ApiError;

/// Alias that stands for every name.
const ANY_NAME: &str = "*";
/// Tag that clients of Ollama add to names.
const LATEST: &str = ":latest";
/// Maximum number of characters of an unknown name that an error quotes.
const MAX_QUOTED_LEN: usize = 64;

/// Facts about a model that are known before it is loaded.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Names that requests may use; responses have the first.
    pub names: Vec<String>,
    /// Further names that requests may use, which are not listed. `*` stands for every name.
    pub aliases: Vec<String>,
    /// File or directory of the model.
    pub path: String,
    /// Format of its files, by their extension.
    pub format: String,
    /// Total size of its files in bytes.
    pub size_bytes: u64,
    /// Architecture of the network.
    pub architecture: String,
    /// Maximum number of tokens of prompt and completion together.
    pub context_len: usize,
}

impl Listing {
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("default", String::as_str)
    }

    /// True if a caller may use the model: its key lists one of the names, or no models at all.
    pub(crate) fn is_open_to(&self, caller: &Caller) -> bool {
        let listed = caller.key().and_then(|key| key.models.as_ref());
        listed.is_none_or(|listed| self.all_names().any(|name| listed.contains(name)))
    }

    fn all_names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(&self.aliases)
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.all_names().any(|ours| ours == name)
    }
}

/// Returns the index of the model that a caller means. Gateways send `default` or `unknown` for any model.
///
/// Models that the key may not use are as unknown as those that do not exist.
pub(super) fn find(
    listings: &[&Listing],
    caller: &Caller,
    name: Option<&str>,
) -> Result<usize, ApiError> {
    let open = || (0..listings.len()).filter(|&at| listings[at].is_open_to(caller));
    let called = |name: &str| open().find(|&at| listings[at].is_called(name));
    let found = match name {
        None | Some("" | "default" | "unknown") => open().next(),
        Some(name) => {
            called(name).or_else(|| called(name.strip_suffix(LATEST)?)).or_else(|| called(ANY_NAME))
        }
    };
    found.ok_or_else(|| {
        let names = open().flat_map(|at| listings[at].names.iter().map(String::as_str));
        not_found(name.unwrap_or_default(), &names.collect::<Vec<_>>(), open().count())
    })
}

fn not_found(name: &str, names: &[&str], models: usize) -> ApiError {
    // A name may be as long as a body.
    let name: String = name.chars().take(MAX_QUOTED_LEN).collect();
    let names = names.join(", ");
    ApiError::no_such_model(match models {
        0 => format!("model {name:?} not found: the key may use no model of this server"),
        1 => format!(
            "model {name:?} not found: this server has {names}; --served-model-name gives it other \
             names"
        ),
        _ => format!(
            "model {name:?} not found: this server has {names}; --served-model-name gives them other \
             names"
        ),
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::*;
    use crate::access::{Key, Keys, Peer};

    fn listing(name: &str, aliases: &[&str]) -> Listing {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        Listing { names: vec![name.to_owned()], aliases, ..Listing::default() }
    }

    fn caller(line: &str) -> Caller {
        let keys = Keys::from_keys([Key::parse(line).unwrap()]);
        let key = line.split(' ').next().unwrap();
        let headers = [(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap())];
        let known = keys.check(&HeaderMap::from_iter(headers)).unwrap();
        Caller::new(known, Peer::default())
    }

    #[test]
    fn names_aliases_and_tags_choose_a_model_and_the_first_is_the_default() {
        let (a, b) = (listing("a", &["*"]), listing("b", &["bee"]));
        let (all, anyone) = ([&a, &b], Caller::new(None, Peer::default()));
        let found = |name| find(&all, &anyone, name).unwrap();
        for (name, at) in [("a", 0), ("b", 1), ("bee", 1), ("b:latest", 1), ("default", 0)] {
            assert_eq!(found(Some(name)), at, "{name}");
        }
        assert_eq!((found(None), found(Some("")), found(Some("else"))), (0, 0, 0));
        let message = find(&[&b], &anyone, Some("x")).unwrap_err().message;
        assert_eq!(
            message,
            "model \"x\" not found: this server has b; --served-model-name gives it other names"
        );
        let long = find(&[&b], &anyone, Some(&"x".repeat(1 << 20))).unwrap_err().message;
        assert!(long.len() < 200, "{} bytes", long.len());
    }

    #[test]
    fn models_that_a_key_may_not_use_do_not_exist_for_it() {
        let (a, b) = (listing("a", &[]), listing("b", &["bee"]));
        let all = [&a, &b];
        let found = |line: &str, name| find(&all, &caller(line), name);
        assert_eq!(found("k", Some("a")).ok(), Some(0));
        assert_eq!(found("k models=bee", None).ok(), Some(1));
        let error = found("k models=b", Some("a")).unwrap_err();
        assert_eq!(error.code, "model_not_found");
        assert!(error.message.contains("has b;"), "{}", error.message);
        let error = found("k models=other", None).unwrap_err();
        assert!(error.message.contains("no model"), "{}", error.message);
    }
}
