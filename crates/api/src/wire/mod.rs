//! Wire types of OpenAI's API and its extensions, one file per endpoint.
//!
//! In requests, a missing field and a null field mean the same. Responses omit fields that do not apply, unless
//! OpenAI's responses always have them.

mod batches;
mod chat;
mod completion;
mod embedding;
mod files;
mod model;
mod prompt;
mod sampling;
mod seed;
mod shared;
mod structured;
mod thinking;
mod tokens;
mod tools;

pub use batches::*;
pub use chat::*;
pub use completion::*;
pub use embedding::*;
pub use files::*;
pub use model::*;
pub use prompt::*;
pub use sampling::*;
pub use seed::*;
pub use shared::*;
pub use structured::*;
pub use thinking::*;
pub use tokens::*;
pub use tools::*;
pub use wf_core::TokenId;

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
