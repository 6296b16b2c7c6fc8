//! Suggestions for mistyped names.

/// Returns the name closest to `typed`, if it is close enough to be a typing error.
pub(crate) fn closest<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &str| strsim::osa_distance(&typed, &name.to_lowercase());
    let distances = names.into_iter().map(|name| (distance(name), name));
    let (distance, name) = distances.min_by_key(|&(distance, _)| distance)?;
    // More than a third of the letters wrong is a different word.
    (distance <= typed.chars().count().max(3) / 3).then_some(name)
}

/// Returns "; did you mean …?" with the name closest to `typed`, or an empty string.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    closest(typed, names).map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognized_and_other_words_are_not() {
        let names = ["help", "system", "regen", "quit"];
        for (typed, meant) in [
            ("hlep", Some("help")),
            ("help", Some("help")),
            ("HELP", Some("help")),
            ("sytem", Some("system")),
            ("regenn", Some("regen")),
            ("exit", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, names), meant, "{typed}");
        }
        assert_eq!(closest("x", []), None);
        assert_eq!(did_you_mean("hlep", names), "; did you mean help?");
        assert_eq!(did_you_mean("exit", names), "");
    }
}
