//! The data in `tokenizer.json`, as types. Its instructions stay JSON and are interpreted in [`super::pipeline`].

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::added::AddedToken;
use crate::{TextError, TokenId, Vocabulary};

#[derive(Deserialize)]
pub(super) struct File {
    pub(super) added_tokens: Option<List<AddedToken>>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    pub(super) post_processor: Option<Value>,
    pub(super) decoder: Option<Value>,
    pub(super) model: Model,
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) dropout: Option<f64>,
    pub(super) unk_token: Option<String>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) fuse_unk: bool,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    pub(super) vocab: Entries,
    pub(super) merges: List<Pair>,
}

/// A list with a limited number of entries.
pub(super) struct List<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    entries.push(entry);
                    check_count(entries.len())?;
                }
                Ok(List(entries))
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

/// Checks the number of tokens or merges. A file of merges alone would otherwise take ten times its size in memory.
fn check_count<E: Error>(count: usize) -> Result<(), E> {
    let max = Vocabulary::MAX_ENTRIES;
    if count <= max {
        return Ok(());
    }
    Err(E::custom(format!("a list has more than {max} entries, which is the limit")))
}

/// `{"text": id, …}` in file order.
pub(super) struct Entries(pub(super) Vec<(String, TokenId)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of token texts and ids")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some((text, id)) = map.next_entry::<String, _>()? {
                    let (len, max) = (text.len(), Vocabulary::MAX_TOKEN_LEN);
                    if len > max {
                        let what = format!("a token has {len} bytes: must be at most {max}");
                        return Err(A::Error::custom(what));
                    }
                    entries.push((text, id));
                    check_count(entries.len())?;
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

/// A merge: `"a b"` (old files) or `["a", "b"]`.
pub(super) struct Pair(pub(super) (String, String));

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairVisitor;
        impl<'de> Visitor<'de> for PairVisitor {
            type Value = Pair;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two token texts, or one string with a space between them")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Pair, E> {
                let (left, right) = split_pair(text).ok_or_else(|| {
                    E::custom(format!(
                        "merge is {text:?}: must be two token texts with a space between them"
                    ))
                })?;
                Ok(Pair((left.to_owned(), right.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair, A::Error> {
                let missing = || A::Error::custom("a merge must have two token texts");
                let left = seq.next_element()?.ok_or_else(missing)?;
                let right = seq.next_element()?.ok_or_else(missing)?;
                match seq.next_element::<String>()? {
                    None => Ok(Pair((left, right))),
                    Some(_) => Err(missing()),
                }
            }
        }
        deserializer.deserialize_any(PairVisitor)
    }
}

/// Splits `"left right"` at its only space.
pub(crate) fn split_pair(text: &str) -> Option<(&str, &str)> {
    text.split_once(' ')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
}

/// Returns the error for bytes that are not a [`File`]. For another type of model, its name says more than the
/// position at which the structure differs.
pub(super) fn invalid(bytes: &[u8], error: serde_json::Error) -> TextError {
    #[derive(Deserialize)]
    struct Kind {
        model: KindOfModel,
    }
    #[derive(Deserialize)]
    struct KindOfModel {
        #[serde(rename = "type")]
        kind: String,
    }
    match serde_json::from_slice::<Kind>(bytes) {
        Ok(Kind { model }) if model.kind != "BPE" => {
            TextError::unsupported("model.type", &format!("{:?}", model.kind), "BPE")
        }
        _ => TextError::Json(error),
    }
}
