//! The types of the API, one file for each part of it.
//!
//! A field of a request that is absent and one that is null mean the same. Fields of a response that
//! do not apply are left out, unless OpenAI's own responses have them always.

mod chat;
mod completion;
mod decoding;
mod embedding;
mod error;
mod event;
mod generate;
mod messages;
mod model;
mod ollama;
mod responses;
mod sampling;
#[cfg(feature = "schema")]
mod structured;
mod tokens;
mod tools;
mod usage;

pub use chat::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatLogprobs, ChatMessage, ChatRequest,
    Content, ContentPart, Delta, ReplyMessage, TokenLogprob, TopLogprob,
};
pub use completion::{Completion, CompletionChoice, CompletionLogprobs, CompletionRequest, Prompt};
pub use decoding::{DiffusionSettings, DraftSettings};
pub use embedding::{
    EmbeddingItem, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, EncodingFormat, Vector,
};
pub use error::{ErrorBody, ErrorDetail};
pub use event::NamedEvent;
pub use generate::{
    GenerateRequest, GenerateResponse, GenerateSampling, MatchedStop, MetaInfo, SglangFinish,
    SglangLogprob,
};
pub use messages::{
    BlockDelta, CountTokensRequest, CountTokensResponse, Message, MessageEnd, MessageEvent,
    MessageUsage, MessagesError, MessagesErrorDetail, MessagesRequest, ReplyBlock,
};
pub use model::{ModelCard, ModelList};
pub use ollama::{
    OllamaCall, OllamaCalledFunction, OllamaChatRequest, OllamaCost, OllamaEmbedRequest,
    OllamaEmbedResponse, OllamaEmbeddingsRequest, OllamaEmbeddingsResponse, OllamaError,
    OllamaGenerateRequest, OllamaMessage, OllamaOptions, OllamaReply,
};
pub use responses::{
    IncompleteDetails, InputItem, OutputCall, OutputItem, OutputMessage, OutputText,
    OutputTokensDetails, ResponseEvent, ResponseFault, ResponseNews, ResponseObject, ResponseText,
    ResponseUsage, ResponsesInput, ResponsesRequest, TextPlace,
};
pub use sampling::{OneOrMany, Sampling, StreamOptions};
#[cfg(feature = "schema")]
pub use structured::{
    FlatFormat, FlatFormats, MessagesStructuredFields, NamedSchema, OllamaFormat,
    OllamaStructuredFields, OutputConfig, ResponseFormat, ResponsesStructuredFields,
    StructuredFields, StructuredOutputs,
};
pub use tokens::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse,
    TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
pub use tools::{CalledFunction, FunctionDelta, ToolCall, ToolCallDelta};
#[cfg(feature = "schema")]
pub use tools::{
    FunctionDefinition, FunctionName, MessagesTool, MessagesToolChoice, ResponsesTool,
    ResponsesToolChoice, ToolChoice, ToolChoiceWord, ToolDefinition,
};
pub use usage::{Progress, PromptTokensDetails, Timings, Usage};

/// The number of a token in its vocabulary.
pub type TokenId = u32;

/// Fields that have no type here.
pub type Rest = serde_json::Map<String, serde_json::Value>;
