//! Tokenizers, chat templates, tool calls and stop strings.
//!
//! Everything here is a pure function of its input: no files, no clock, no environment, no network. Text from a
//! user never becomes a special token ([`Tokenizer::encode`], [`Tokenizer::encode_prompt`]), and no text takes more
//! than n log n time.
#![forbid(unsafe_code)]

mod added;
mod bpe;
mod byte_alphabet;
mod char_class;
mod detokenize;
mod error;
mod gguf;
mod merge;
mod message;
mod normalize;
mod parts;
mod prompt;
mod special_text;
mod split;
mod stop;
mod template;
mod thinking;
mod tokenizer;
mod tokenizer_json;
mod tools;
mod vocab;

/// Counts the memory of rendering threads, for the global allocator of a program.
pub mod allocations {
    pub use crate::template::budget::{charge, refund};
}

pub use detokenize::Detokenizer;
pub use error::TextError;
pub use message::ChatMessage;
pub use prompt::Prompt;
pub use special_text::SpecialTexts;
pub use stop::{StopFinder, StopOutcome};
pub use template::{ChatTemplate, RenderOptions};
pub use thinking::{CLOSE_TAG, OPEN_TAG, ThinkingStart, Thought, ThoughtSplitter};
pub use tokenizer::Tokenizer;
pub use tools::{ToolCallEvent, ToolCallParser, ToolFormat};
pub use wf_core::{TokenId, Vocabulary};
