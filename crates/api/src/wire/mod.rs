//! Wire types of OpenAI's API and its extensions, one file per endpoint.
//!
//! In requests, a missing field and a null field mean the same. Responses omit fields that do not apply, unless
//! OpenAI's responses always have them.

mod chat;
mod completion;
mod decoding;
mod embedding;
mod error;
mod event;
mod model;
mod sampling;
mod structured;
mod tokens;
mod tools;
mod usage;

pub use chat::{
    AssistantMessage, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatLogprobs,
    ChatMessage, ChatRequest, Content, ContentPart, Delta, TokenLogprob, TopLogprob,
};
pub use completion::{Completion, CompletionChoice, CompletionLogprobs, CompletionRequest, Prompt};
pub use decoding::{DiffusionSettings, DraftSettings};
pub use embedding::{
    EmbeddingItem, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, EncodingFormat, Vector,
};
pub use error::{ErrorBody, ErrorDetail};
pub use event::NamedEvent;
pub use model::{ModelCard, ModelList};
pub use sampling::{OneOrMany, Sampling, StreamOptions};
pub use structured::{
    FlatResponseFormat, NamedSchema, ResponseFormat, StructuredFields, StructuredOutputs,
};
pub use tokens::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse,
    TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
pub use tools::{CalledFunction, FunctionDelta, ToolCall, ToolCallDelta};
pub use tools::{FunctionDefinition, FunctionName, ToolChoice, ToolChoiceMode, ToolDefinition};
pub use usage::{Progress, PromptTokensDetails, Timings, Usage};
pub use wf_core::TokenId;

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
