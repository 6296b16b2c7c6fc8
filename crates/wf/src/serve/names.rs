//! Names of several models in requests.

/// Possible names of a model.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Name in its metadata, or else of its file.
    pub(crate) name: String,
    /// Name of its file without the extension.
    pub(crate) stem: String,
    /// Further names that requests may use, where no other model has them.
    pub(crate) aliases: Vec<String>,
}

/// Returns a name for each model, all different: its own, that of its file if another model has the same, or that
/// with a number.
pub(crate) fn distinct_names(candidates: &[Candidate]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for candidate in candidates {
        let is_shared = candidates.iter().filter(|other| other.name == candidate.name).count() > 1;
        let plain = if is_shared { &candidate.stem } else { &candidate.name };
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let mut possible = std::iter::once(plain.clone()).chain(numbered);
        let free = possible.find(|name| !names.contains(name));
        names.push(free.expect("some number is not taken"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[(&str, &str)]) -> Vec<String> {
        let candidate = |&(name, stem): &(&str, &str)| Candidate {
            name: name.to_owned(),
            stem: stem.to_owned(),
            aliases: Vec::new(),
        };
        distinct_names(&candidates.iter().map(candidate).collect::<Vec<_>>())
    }

    #[test]
    fn models_have_their_own_names_where_they_differ() {
        assert_eq!(names(&[("Falcon", "f"), ("Bonsai", "b")]), ["Falcon", "Bonsai"]);
    }

    #[test]
    fn names_that_clash_are_those_of_the_files_and_then_have_a_number() {
        assert_eq!(names(&[("demo", "a"), ("demo", "b")]), ["a", "b"]);
        assert_eq!(names(&[("demo", "a"), ("demo", "a"), ("a", "c")]), ["a", "a-2", "a-3"]);
    }
}
