//! `POST /v1/embeddings`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{JsonObject, Prompt};

/// Request for embeddings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingRequest {
    /// Name of the model; the first model if absent.
    pub model: Option<String>,
    /// A text, a list of texts, the token ids of a text, or a list of those.
    #[schema(required = true)]
    pub input: Option<Prompt>,
    /// Encoding of the vectors; `float` by default.
    pub encoding_format: Option<EncodingFormat>,
    /// Number of leading dimensions to keep; the vector is scaled to length 1 again.
    #[schema(minimum = 1)]
    pub dimensions: Option<u32>,
    /// Pooling of hidden states: `mean`, `cls` or `last`. The default is the model's own, or else `last`.
    pub pooling: Option<String>,
    /// Adds the tokenizer's begin and end tokens; `true` by default.
    pub add_special_tokens: Option<bool>,
    /// Requests share the prefix cache only if they have the same salt.
    pub cache_salt: Option<String>,
    /// Among the requests of a caller, those with a higher priority run first; 0 by default.
    pub priority: Option<i32>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: JsonObject,
}

/// Encoding of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncodingFormat {
    /// List of numbers.
    #[default]
    Float,
    /// Little-endian 32-bit floats in base64.
    Base64,
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingResponse {
    /// `list`.
    pub object: String,
    /// One entry per text, in order.
    pub data: Vec<EmbeddingItem>,
    /// Name of the model.
    pub model: String,
    /// Token counts.
    pub usage: EmbeddingUsage,
}

/// Embedding of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingItem {
    /// `embedding`.
    pub object: String,
    /// Index of the text.
    pub index: usize,
    /// Vector of length 1.
    pub embedding: Vector,
}

/// An encoded vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Vector {
    /// List of numbers.
    Float(Vec<f32>),
    /// Little-endian 32-bit floats in base64.
    Base64(String),
}

impl Vector {
    /// Encodes numbers.
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

/// Token counts of an embedding request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingUsage {
    /// Number of tokens of all texts.
    pub prompt_tokens: u32,
    /// The same number: nothing is generated.
    pub total_tokens: u32,
}

/// Encodes bytes in base64 with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_standard() {
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
    fn vectors_are_encoded_as_numbers_or_bytes() {
        let json = |format| serde_json::to_string(&Vector::new(vec![1.0, -0.5], format)).unwrap();
        assert_eq!(json(EncodingFormat::Float), "[1.0,-0.5]");
        assert_eq!(json(EncodingFormat::Base64), "\"AACAPwAAAL8=\"");
    }
}
