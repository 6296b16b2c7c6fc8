//! Names of pages: digests of everything that their K/V depends on.

use std::fmt;

use sha2::{Digest, Sha256};
use wf_formats::ModelFile;
use wf_model::{PAGE_LEN, PAGE_VERSION, TokenId};

use crate::NUMERICS;
use crate::activation_sparsity::ActivationSparsity;
use crate::load::RunOptions;
use crate::prefix::Tree;

/// Name of a page: the digest of a model with its settings, a tree, and all tokens up to the end of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey(pub(super) [u8; 32]);

impl PageKey {
    /// Returns the key of no tokens, for a model of this digest that runs with `options`.
    ///
    /// Everything that K/V depends on is folded in here: pages of other models, versions and settings have other
    /// names. The network has what options and overrides made of the file: rotation, windows, activation.
    /// Options that change no bit (threads, instruction set, layout, chunks, head, skipped zeros) are left out.
    pub(crate) fn of_model(digest: &str, file: &ModelFile, options: &RunOptions) -> Self {
        let network = file.network();
        let facts = [
            format!(
                "pages {PAGE_VERSION}, {}-endian",
                if cfg!(target_endian = "big") { "big" } else { "little" }
            ),
            format!("numerics {NUMERICS}"),
            format!("model {digest}, {:?}", options.open),
            format!("network {network:?}"),
            format!("kv {}", options.kv),
            format!("attention {}", options.attention),
            format!("activations {}", options.activations.unwrap_or(network.activations)),
            // Some rotations depend on the length of the context.
            format!("context {}", options.context_len.unwrap_or(file.info().context_len)),
        ];
        // Pages of older versions, which had no such setting, stay what they are.
        let zeros = match &options.activation_sparsity {
            ActivationSparsity::Off => None,
            zeros => Some(format!("activation sparsity {}", zeros.fingerprint())),
        };
        Self::of(facts.iter().chain(&zeros).map(String::as_bytes))
    }

    /// Returns the key of no tokens in `tree`.
    pub(crate) fn of_tree(self, Tree { salt, visibility, predicts }: Tree) -> Self {
        let visibility = format!("{visibility:?}");
        let predicts = predicts.then_some(&b"prediction head"[..]);
        let parts = [&self.0[..], &salt.to_le_bytes(), visibility.as_bytes()];
        Self::of(parts.into_iter().chain(predicts))
    }

    /// Returns the key of the page that follows.
    pub(crate) fn next(self, tokens: &[TokenId; PAGE_LEN]) -> Self {
        let mut hash = Sha256::new_with_prefix(self.0);
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
        Self(hash.finalize().into())
    }

    /// Hashes parts with their lengths, so that no two lists of parts have the same bytes.
    fn of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Returns the key that [`Display`](fmt::Display) wrote, if it is one.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * key.len() || !digits.is_ascii() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(digits.as_chunks::<2>().0) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(Self(key)).filter(|key| key.to_string() == text)
    }
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wf_core::{ActivationCodes, AttentionMode};
    use wf_model::{KvDtype, Visibility};

    use super::*;
    use crate::load::ModelSource;

    fn demo() -> ModelFile {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wf/assets/demo.gguf");
        ModelSource::Path(path.into()).open(&wf_formats::OpenOptions::default()).unwrap()
    }

    #[test]
    fn every_setting_that_changes_kv_changes_the_key() {
        let file = demo();
        let options = RunOptions::default;
        let settings = [
            ("a", options()),
            ("b", options()),
            ("a", RunOptions { kv: KvDtype::Int8, ..options() }),
            ("a", RunOptions { attention: AttentionMode::TopK(8), ..options() }),
            ("a", RunOptions { activations: Some(ActivationCodes::Int16), ..options() }),
            ("a", RunOptions { context_len: Some(512), ..options() }),
            ("a", RunOptions { activation_sparsity: ActivationSparsity::TopK(0.5), ..options() }),
            ("a", RunOptions { activation_sparsity: ActivationSparsity::TopK(0.6), ..options() }),
        ];
        let keys: HashSet<_> =
            settings.iter().map(|(digest, of)| PageKey::of_model(digest, &file, of)).collect();
        assert_eq!(keys.len(), settings.len());
        // Defaults that are spelled out are the same settings.
        let spelled = RunOptions {
            activations: Some(file.network().activations),
            context_len: Some(file.info().context_len),
            threads: 7,
            ..options()
        };
        assert!(keys.contains(&PageKey::of_model("a", &file, &spelled)));
    }

    #[test]
    fn a_key_depends_on_salt_attention_and_all_tokens_before() {
        let model = PageKey([7; 32]);
        let tree = |salt, visibility| model.of_tree(Tree { salt, visibility, predicts: false });
        let root = tree(1, Visibility::Causal);
        let (zeros, ones) = ([0; PAGE_LEN], [1; PAGE_LEN]);
        let keys = HashSet::from([
            root,
            tree(2, Visibility::Causal),
            tree(1, Visibility::Block(32)),
            root.next(&zeros),
            root.next(&ones),
            root.next(&zeros).next(&ones),
            root.next(&ones).next(&zeros),
        ]);
        assert_eq!(keys.len(), 7);
    }

    #[test]
    fn names_are_read_back() {
        let key = PageKey([7; 32]).next(&[3; PAGE_LEN]);
        assert_eq!(PageKey::from_hex(&key.to_string()), Some(key));
        for wrong in ["", "07", &"g".repeat(64), &"A".repeat(64), &"é".repeat(32)] {
            assert_eq!(PageKey::from_hex(wrong), None, "{wrong}");
        }
    }
}
