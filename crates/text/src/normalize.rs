//! Normalization before pre-tokenization: canonical composition, and the `▁` of SentencePiece.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// One normalization step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Normalizer {
    /// Unicode canonical composition.
    Nfc,
    /// Prepends a string to any text that is not empty.
    Prepend(String),
    /// Replaces every occurrence of `from`.
    Replace { from: String, to: String },
}

/// Applies the steps in order.
pub(crate) fn normalize<'a>(steps: &[Normalizer], text: &'a str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for step in steps {
        match step {
            Normalizer::Nfc => {
                if is_nfc_quick(text.chars()) != IsNormalized::Yes {
                    text = Cow::Owned(text.nfc().collect());
                }
            }
            Normalizer::Prepend(prefix) => {
                if !text.is_empty() {
                    text.to_mut().insert_str(0, prefix);
                }
            }
            Normalizer::Replace { from, to } => {
                if text.contains(from.as_str()) {
                    text = Cow::Owned(text.replace(from.as_str(), to));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_order() {
        let llama2 = [
            Normalizer::Prepend("▁".into()),
            Normalizer::Replace { from: " ".into(), to: "▁".into() },
        ];
        assert_eq!(normalize(&llama2, "a b"), "▁a▁b");
        assert_eq!(normalize(&llama2, ""), "");
        assert_eq!(normalize(&[Normalizer::Nfc], "e\u{301}"), "é");
    }
}
