//! `POST /v1/embeddings`.

use serde::{Deserialize, Serialize};

use super::{Prompt, Rest};

/// Texts to turn into vectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct EmbeddingRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A text, a list of texts, the tokens of a text, or a list of such.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub input: Option<Prompt>,
    /// How vectors are written; `float` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding_format: Option<EncodingFormat>,
    /// Keep only so many numbers of each vector, scaled to length 1 again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub dimensions: Option<u32>,
    /// Which hidden states a vector is made of: `mean`, `cls` or `last`; what the model's makers say
    /// if absent, or else `last`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<String>,
    /// Whether the tokenizer's begin and end tokens go around a text; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_special_tokens: Option<bool>,
    /// Only requests with the same salt share what was computed of equal beginnings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_salt: Option<String>,
    /// Higher runs first; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum EncodingFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// The bytes of its 32-bit floats, lowest first, in base64.
    Base64,
}

/// The vectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EmbeddingResponse {
    /// `list`.
    pub object: String,
    /// One for each text, in order.
    pub data: Vec<EmbeddingItem>,
    /// The model that made them.
    pub model: String,
    /// The tokens counted.
    pub usage: EmbeddingUsage,
}

/// The vector of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EmbeddingItem {
    /// `embedding`.
    pub object: String,
    /// The place of its text.
    pub index: usize,
    /// The vector, of length 1.
    pub embedding: Vector,
}

/// A vector as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Vector {
    /// Its numbers.
    Float(Vec<f32>),
    /// The bytes of its 32-bit floats, lowest first, in base64.
    Base64(String),
}

impl Vector {
    /// Writes numbers in a format.
    pub fn new(numbers: Vec<f32>, format: EncodingFormat) -> Self {
        match format {
            EncodingFormat::Float => Self::Float(numbers),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
                Self::Base64(base64(&bytes))
            }
        }
    }
}

/// The tokens of a request for vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EmbeddingUsage {
    /// Tokens of the texts.
    pub prompt_tokens: u32,
    /// The same: nothing is written.
    pub total_tokens: u32,
}

/// Bytes as text: six bits a letter, filled up to groups of four (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= group.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // The examples of RFC 4648, and all letters.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf, 0x00]), "+/+/AA==");
    }

    #[test]
    fn a_vector_is_written_as_numbers_or_as_bytes() {
        let json = |format| serde_json::to_string(&Vector::new(vec![1.0, -0.5], format)).unwrap();
        assert_eq!(json(EncodingFormat::Float), "[1.0,-0.5]");
        assert_eq!(json(EncodingFormat::Base64), "\"AACAPwAAAL8=\"");
    }
}
