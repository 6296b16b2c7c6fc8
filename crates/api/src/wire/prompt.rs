//! Prompts of completions and texts of embeddings.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TokenId;

/// A text or token ids, or a list of either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Prompt {
    /// One text.
    Text(String),
    /// Token ids of one text.
    Ids(Vec<TokenId>),
    /// Several texts.
    Texts(Vec<String>),
    /// Token ids of several texts.
    ManyIds(Vec<Vec<TokenId>>),
}

const EXPECTED: &str =
    "expected a string, a list of strings, a list of token ids or a list of such lists";

/// Builds lists item by item. The derived code would first collect all items as values of any type, which take eight
/// times the memory of token ids.
impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PromptVisitor;
        impl<'de> Visitor<'de> for PromptVisitor {
            type Value = Prompt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prompt, E> {
                Ok(Prompt::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Prompt, E> {
                Ok(Prompt::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Prompt, A::Error> {
                let mut prompt = match items.next_element()? {
                    None => return Ok(Prompt::Ids(Vec::new())),
                    Some(Item::Id(id)) => Prompt::Ids(vec![id]),
                    Some(Item::Text(text)) => Prompt::Texts(vec![text]),
                    Some(Item::Ids(ids)) => Prompt::ManyIds(vec![ids]),
                };
                while let Some(item) = items.next_element()? {
                    match (&mut prompt, item) {
                        (Prompt::Ids(ids), Item::Id(id)) => ids.push(id),
                        (Prompt::Texts(texts), Item::Text(text)) => texts.push(text),
                        (Prompt::ManyIds(many), Item::Ids(ids)) => many.push(ids),
                        _ => return Err(Error::custom(EXPECTED)),
                    }
                }
                Ok(prompt)
            }
        }
        // The types that a visitor does not expect are reported with theirs.
        deserializer.deserialize_any(PromptVisitor).map_err(|_| Error::custom(EXPECTED))
    }
}

/// One item of a list.
enum Item {
    Id(TokenId),
    Text(String),
    Ids(Vec<TokenId>),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token id or a list of token ids")
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Item, E> {
                TokenId::try_from(id).map(Item::Id).map_err(Error::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Item, E> {
                Ok(Item::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Item, A::Error> {
                let mut ids = Vec::new();
                while let Some(id) = items.next_element()? {
                    ids.push(id);
                }
                Ok(Item::Ids(ids))
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_text_or_ids_or_a_list_of_either() {
        let read = |json: &str| serde_json::from_str::<Prompt>(json).unwrap();
        assert_eq!(read("\"a\\n\""), Prompt::Text("a\n".into()));
        assert_eq!(read("[]"), Prompt::Ids(vec![]));
        assert_eq!(read("[1, 4294967295]"), Prompt::Ids(vec![1, u32::MAX]));
        assert_eq!(read("[\"a\", \"\"]"), Prompt::Texts(vec!["a".into(), String::new()]));
        assert_eq!(read("[[], [1, 2]]"), Prompt::ManyIds(vec![vec![], vec![1, 2]]));
    }

    #[test]
    fn everything_else_is_an_error_that_lists_the_types() {
        for json in [
            "7",
            "null",
            "true",
            "{}",
            "[null]",
            "[1, \"a\"]",
            "[\"a\", 1]",
            "[[1], 2]",
            "[[\"a\"]]",
            "[-1]",
            "[4294967296]",
            "[1.5]",
            "[{}]",
            "[[[]]]",
        ] {
            let error = serde_json::from_str::<Prompt>(json).unwrap_err().to_string();
            assert!(error.starts_with(EXPECTED), "{json}: {error}");
        }
    }
}
