//! `/tokenize`, `/detokenize`, `/apply-template` and `/tokenizer_info`.

use serde::{Deserialize, Serialize};

use super::{ChatMessage, Rest, TokenId};

/// A text or a conversation to cut into tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TokenizeRequest {
    /// Which model; the only one there is if absent.
    pub model: Option<String>,
    /// The text.
    #[serde(alias = "content", alias = "text")]
    pub prompt: Option<String>,
    /// Or the conversation.
    pub messages: Option<Vec<ChatMessage>>,
    /// Whether the model's begin token goes before a text. Not, unless asked for.
    #[serde(alias = "add_special")]
    pub add_special_tokens: Option<bool>,
    /// Whether the names of special tokens in a text stand for those tokens. Not, unless asked for.
    pub parse_special: Option<bool>,
    /// End a conversation where the assistant's answer begins; true if absent.
    pub add_generation_prompt: Option<bool>,
    /// Further variables of the chat template.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub chat_template_kwargs: Option<Rest>,
    /// The tools offered in the conversation.
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// Tell the text of each token.
    #[serde(alias = "with_pieces")]
    pub return_token_strs: Option<bool>,
}

/// The tokens of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenizeResponse {
    /// How many.
    pub count: usize,
    /// The most tokens that prompt and reply may have together.
    pub max_model_len: usize,
    /// Their numbers.
    pub tokens: Vec<TokenId>,
    /// Their texts, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_strs: Option<Vec<String>>,
}

/// Tokens to join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DetokenizeRequest {
    /// Which model; the only one there is if absent.
    #[serde(default)]
    pub model: Option<String>,
    /// Their numbers.
    pub tokens: Vec<TokenId>,
}

/// The text of tokens, under the names of vLLM and of llama-server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DetokenizeResponse {
    /// The text.
    pub prompt: String,
    /// The text.
    pub content: String,
}

/// A conversation to write as the model sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ApplyTemplateRequest {
    /// Which model; the only one there is if absent.
    pub model: Option<String>,
    /// The conversation.
    #[cfg_attr(feature = "schema", schema(min_items = 1, required = true))]
    pub messages: Vec<ChatMessage>,
    /// End it where the assistant's answer begins; true if absent.
    pub add_generation_prompt: Option<bool>,
    /// Leave the last message open.
    pub continue_final_message: Option<bool>,
    /// Further variables of the chat template.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub chat_template_kwargs: Option<Rest>,
    /// The tools offered in the conversation.
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
}

/// A conversation as the model sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApplyTemplateResponse {
    /// The text.
    pub prompt: String,
}

/// What a client that tokenizes for itself needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenizerInfo {
    /// What kind of tokenizer.
    pub tokenizer_class: String,
    /// The begin token.
    pub bos_token: Option<String>,
    /// The end token.
    pub eos_token: Option<String>,
    /// Nothing is padded.
    pub pad_token: Option<String>,
    /// The template of conversations.
    pub chat_template: Option<String>,
    /// Tokens it knows.
    pub vocab_size: usize,
    /// The most tokens that prompt and reply may have together.
    pub model_max_length: usize,
}
