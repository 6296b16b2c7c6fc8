//! References to models on the hub: `hf:owner/repo[@revision][:file]`.

use std::fmt;

use crate::error::HubError;

/// Prefix of references.
const SCHEME: &str = "hf:";
/// The default revision.
const MAIN: &str = "main";

/// A reference to a model on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `owner/repo`.
    pub repo: String,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// A file of the repository; `None` for the checkpoint or the only GGUF file.
    pub file: Option<String>,
}

impl Reference {
    /// Parses a reference; returns `None` if the text is a path.
    pub fn parse(text: &str) -> Option<Result<Self, HubError>> {
        text.strip_prefix(SCHEME).map(|rest| Self::parts(text, rest))
    }

    fn parts(text: &str, rest: &str) -> Result<Self, HubError> {
        let bad = |what: &str| {
            let what = format!("{what}; a model on the hub is hf:owner/repo[@revision][:file]");
            HubError::new(format!("{text:?}"), what)
        };
        let (rest, file) =
            rest.split_once(':').map_or((rest, None), |(rest, file)| (rest, Some(file)));
        let (repo, revision) = rest.split_once('@').unwrap_or((rest, MAIN));
        if repo.matches('/').count() != 1 || !is_file(repo) {
            return Err(bad("owner or repository is missing or invalid"));
        }
        if !is_file(revision) {
            return Err(bad("revision after @ is missing or invalid"));
        }
        if file.is_some_and(|file| !is_file(file)) {
            return Err(bad("file after the second colon is missing or invalid"));
        }
        let (repo, revision) = (repo.to_owned(), revision.to_owned());
        Ok(Self { repo, revision, file: file.map(str::to_owned) })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.repo)?;
        if self.revision != MAIN {
            write!(f, "@{}", self.revision)?;
        }
        self.file.iter().try_for_each(|file| write!(f, ":{file}"))
    }
}

/// Returns `true` for a path component that is safe: no separator, not `..`, not hidden.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 96 && !name.starts_with('.') && name.chars().all(plain)
}

/// Returns `true` if a name from a repository is safe to use as a relative path.
pub(crate) fn is_file(path: &str) -> bool {
    path.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, String> {
        Reference::parse(text).unwrap().map_err(|e| e.to_string())
    }

    #[test]
    fn a_reference_has_up_to_three_parts() {
        let plain = parse("hf:microsoft/bitnet-b1.58-2B-4T").unwrap();
        assert_eq!(
            (plain.repo.as_str(), plain.revision.as_str()),
            ("microsoft/bitnet-b1.58-2B-4T", "main")
        );
        let full = parse("hf:a/b@refs/pr/3:sub/model.gguf").unwrap();
        assert_eq!(
            (full.revision.as_str(), full.file.as_deref()),
            ("refs/pr/3", Some("sub/model.gguf"))
        );
        for text in ["hf:a/b", "hf:a/b@v1", "hf:a/b:m.gguf", "hf:a/b@v1:x/m.gguf"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert!(Reference::parse("model.gguf").is_none());
        assert!(Reference::parse("C:model.gguf").is_none());
    }

    #[test]
    fn rejects_paths_that_leave_their_directory() {
        for text in [
            "hf:",
            "hf:a",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/..",
            "hf:a/b@",
            "hf:a/b@../x",
            "hf:a/b:",
            "hf:a/b:../x",
            "hf:a/b:/etc/x",
            "hf:a/b:x/../y",
            "hf:a/b:.x",
            "hf:a b/c",
            "hf:a/b\\c",
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains("hf:owner/repo[@revision][:file]"), "{text}: {message}");
        }
    }
}
