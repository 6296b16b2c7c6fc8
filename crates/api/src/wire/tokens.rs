//! `/tokenize`, `/detokenize`, `/apply-template` and `/tokenizer_info`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ChatMessage, JsonObject, TokenId};

/// Request to tokenize a text or a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizeRequest {
    /// Name of the model; the first model if absent.
    pub model: Option<String>,
    /// Text to tokenize.
    #[serde(alias = "content", alias = "text")]
    pub prompt: Option<String>,
    /// Conversation to tokenize, in place of a text.
    pub messages: Option<Vec<ChatMessage>>,
    /// Puts the model's BOS token before a text; `true` by default, as in completions.
    #[serde(alias = "add_special")]
    pub add_special_tokens: Option<bool>,
    /// Parses names of special tokens in a text as those tokens; `true` by default, as in completions.
    pub parse_special: Option<bool>,
    /// Ends a conversation where the assistant's message begins; `true` by default.
    pub add_generation_prompt: Option<bool>,
    /// Additional variables for the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<JsonObject>,
    /// Tools of the conversation.
    #[schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128)]
    pub tools: Option<Vec<JsonObject>>,
    /// Returns the text of each token.
    #[serde(alias = "with_pieces")]
    pub return_token_strs: Option<bool>,
}

/// Tokens of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenizeResponse {
    /// Number of tokens.
    pub count: usize,
    /// Maximum number of tokens of prompt and completion together.
    pub max_model_len: usize,
    /// Token ids.
    pub tokens: Vec<TokenId>,
    /// Texts of the tokens, with `return_token_strs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_strs: Option<Vec<String>>,
}

/// Request to detokenize.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DetokenizeRequest {
    /// Name of the model; the first model if absent.
    #[serde(default)]
    pub model: Option<String>,
    /// Token ids.
    pub tokens: Vec<TokenId>,
}

/// Text of tokens, in the fields of vLLM (`prompt`) and llama-server (`content`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DetokenizeResponse {
    /// Text of the tokens.
    pub prompt: String,
    /// Text of the tokens.
    pub content: String,
}

/// Request to render a conversation with the chat template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApplyTemplateRequest {
    /// Name of the model; the first model if absent.
    pub model: Option<String>,
    /// Messages of the conversation.
    #[schema(min_items = 1, required = true)]
    pub messages: Vec<ChatMessage>,
    /// Ends the prompt where the assistant's message begins; `true` by default.
    pub add_generation_prompt: Option<bool>,
    /// Leaves the last message open, to be continued.
    pub continue_final_message: Option<bool>,
    /// Additional variables for the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<JsonObject>,
    /// Tools of the conversation.
    #[schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128)]
    pub tools: Option<Vec<JsonObject>>,
}

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplyTemplateResponse {
    /// Text of the prompt.
    pub prompt: String,
}

/// Properties of the tokenizer, for clients that tokenize themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenizerInfo {
    /// Class of the tokenizer.
    pub tokenizer_class: String,
    /// BOS token.
    pub bos_token: Option<String>,
    /// EOS token.
    pub eos_token: Option<String>,
    /// Always null: nothing is padded.
    pub pad_token: Option<String>,
    /// Chat template.
    pub chat_template: Option<String>,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Maximum number of tokens of prompt and completion together.
    pub model_max_length: usize,
}
