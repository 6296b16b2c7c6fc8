//! The text side of a model: everything between strings and token ids.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use wf_formats::{ModelFile, TokenizerSource};
use wf_model::{Pooling, TokenId};
use wf_text::{
    CLOSE_TAG, ChatMessage, ChatTemplate, OPEN_TAG, Prompt, RenderOptions, TextError,
    ThinkingStart, Tokenizer, ToolFormat,
};

use crate::error::{FrontendError, OpenError};
use crate::thinking::ThinkingEnd;
use crate::token_pattern::TokenPattern;

/// Tokenizer, chat template and special tokens of a model.
pub struct ModelText {
    /// Tokenizer.
    pub tokenizer: Tokenizer,
    /// Chat template, if the model has one.
    pub template: Option<ChatTemplate>,
    /// Source of the chat template.
    pub template_source: Option<String>,
    /// Tokens that end a completion.
    pub end_tokens: Vec<TokenId>,
    /// Tokens that precede a raw prompt.
    pub prompt_prefix: Vec<TokenId>,
    /// Pooling for embeddings, if the model declares one.
    pub pooling: Option<Pooling>,
    /// Text of the begin token.
    pub bos_text: Option<String>,
    /// Text of the end token.
    pub eos_text: Option<String>,
    /// The end of thinking, built when it is first needed.
    pub thinking_end: OnceLock<Arc<ThinkingEnd>>,
}

/// Input of a generation.
#[derive(Clone, Debug)]
pub enum PromptInput {
    /// Plain text, preceded by the model's begin token.
    Text(String),
    /// Text in which the names of special tokens stand for those tokens.
    TextWithSpecials(String),
    /// A conversation, rendered by the chat template.
    Chat(Vec<ChatMessage>),
    /// Token ids.
    Tokens(Vec<TokenId>),
}

impl Default for PromptInput {
    fn default() -> Self {
        Self::Tokens(Vec::new())
    }
}

/// Options of rendering a conversation.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// Ends the prompt with the header of an assistant message.
    pub add_generation_prompt: bool,
    /// Leaves the last message open for continuation.
    pub continue_final: bool,
    /// Tools, each as in the OpenAI API.
    pub tools: Vec<Value>,
    /// Additional variables of the template.
    pub extra: Map<String, Value>,
    /// Turns thinking on or off; up to the template if absent.
    pub thinking: Option<bool>,
    /// Opens the thinking of a model that thinks, so that the place of its end is certain: a grammar and a limit of
    /// thinking tokens need it.
    pub opens_thinking: bool,
}

/// An encoded conversation.
#[derive(Clone, Debug)]
pub struct ChatTurn {
    /// Token ids of the prompt.
    pub prompt: Vec<TokenId>,
    /// Place of the completion relative to thinking, if the template declares thinking.
    pub thinking: Option<ThinkingStart>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            add_generation_prompt: true,
            continue_final: false,
            tools: Vec::new(),
            extra: Map::new(),
            thinking: None,
            opens_thinking: false,
        }
    }
}

/// Text that opens thinking, as models write it.
const OPENING: &str = "<think>\n";

/// Text that ends thinking, as models write it.
const CLOSING: &str = "\n</think>\n\n";

impl ModelText {
    /// Renders a conversation with the model's template.
    pub fn chat_prompt(
        &self,
        messages: &[ChatMessage],
        options: ChatOptions,
    ) -> Result<Prompt, FrontendError> {
        let template = self.template.as_ref().ok_or(FrontendError::NoTemplate)?;
        Ok(template.render_chat(messages, &self.render_options(options))?)
    }

    /// Renders and encodes a conversation. Thinking is opened and closed as the options say, also where the template
    /// does not know how.
    pub fn chat_turn(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
    ) -> Result<ChatTurn, FrontendError> {
        let mut prompt = self.chat_prompt(messages, options.clone())?;
        let thinking = self.start_thinking(&mut prompt, messages, options);
        Ok(ChatTurn { prompt: self.tokenizer.encode_prompt(&prompt), thinking })
    }

    /// Returns `true` if the template declares thinking.
    pub fn can_think(&self) -> bool {
        self.template.as_ref().is_some_and(ChatTemplate::declares_thinking)
    }

    /// Completes the end of a prompt. Returns the place of the completion relative to thinking.
    fn start_thinking(
        &self,
        prompt: &mut Prompt,
        messages: &[ChatMessage],
        options: &ChatOptions,
    ) -> Option<ThinkingStart> {
        let template = self.template.as_ref().filter(|template| template.declares_thinking())?;
        let continued = messages.last().filter(|_| options.continue_final);
        if let Some(start) = continued.and_then(|message| start_inside(&message.content)) {
            return Some(start);
        }
        if continued.is_none() && !options.add_generation_prompt {
            return None;
        }
        let thinks = options.thinking == Some(true) || template.switches_thinking();
        Some(match (start_after(prompt.text()), options.thinking) {
            (ThinkingStart::Open, Some(false)) => {
                prompt.push_str(CLOSING);
                ThinkingStart::Answer
            }
            (ThinkingStart::MayOpen, Some(false)) if !template.switches_thinking() => {
                prompt.push_str(OPENING);
                prompt.push_str(CLOSING);
                ThinkingStart::Answer
            }
            (ThinkingStart::MayOpen, Some(true) | None) if options.opens_thinking && thinks => {
                prompt.push_str(OPENING);
                ThinkingStart::Open
            }
            (start, _) => start,
        })
    }

    /// Returns the end of thinking in token ids.
    pub(crate) fn thinking_end(&self) -> Arc<ThinkingEnd> {
        let end = self.thinking_end.get_or_init(|| {
            let tags = self.thinking_tokens();
            // The text does not show other special tokens.
            let is_text = |id| !self.tokenizer.is_special(id) || tags.contains(&id);
            let bytes = |id| self.tokenizer.token_bytes(id).filter(|_| is_text(id));
            let tokens = (0..self.tokenizer.len() as TokenId).map(|id| bytes(id).unwrap_or(b""));
            let tag = TokenPattern::new(CLOSE_TAG.as_bytes(), tokens);
            let closing = self.tokenizer.encode_with_specials(CLOSING);
            Arc::new(ThinkingEnd { tag, closing })
        });
        Arc::clone(end)
    }

    /// Returns the special tokens that are tags of thinking.
    pub(crate) fn thinking_tokens(&self) -> Vec<TokenId> {
        self.specials_among([OPEN_TAG, CLOSE_TAG].into_iter())
    }

    fn specials_among<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Vec<TokenId> {
        let ids = texts.filter_map(|text| self.tokenizer.id_of(text));
        ids.filter(|&id| self.tokenizer.is_special(id)).collect()
    }

    /// Returns the format in which the model writes tool calls.
    pub fn tool_format(&self) -> ToolFormat {
        self.template.as_ref().map_or_else(ToolFormat::default, ChatTemplate::tool_format)
    }

    /// Returns the special tokens that delimit tool calls.
    pub fn tool_call_tokens(&self) -> Vec<TokenId> {
        let format = self.tool_format();
        self.specials_among(format.call_start().into_iter().chain(format.call_end()))
    }

    /// Encodes a text. `add_prefix` puts the model's begin token before it; with `parse_specials`, names of
    /// special tokens stand for those tokens.
    pub fn text_ids(&self, text: &str, add_prefix: bool, parse_specials: bool) -> Vec<TokenId> {
        let ids = match parse_specials {
            true => self.tokenizer.encode_with_specials(text),
            false => self.tokenizer.encode(text),
        };
        if add_prefix { [&self.prompt_prefix[..], &ids].concat() } else { ids }
    }

    /// Encodes a prompt.
    pub fn prompt_ids(&self, input: &PromptInput) -> Result<Vec<TokenId>, FrontendError> {
        Ok(self.turn(input, &ChatOptions::default())?.prompt)
    }

    /// Encodes a prompt. Only a conversation has thinking.
    pub(crate) fn turn(
        &self,
        input: &PromptInput,
        options: &ChatOptions,
    ) -> Result<ChatTurn, FrontendError> {
        let prompt = match input {
            PromptInput::Tokens(ids) => ids.clone(),
            PromptInput::Text(text) => self.text_ids(text, true, false),
            PromptInput::TextWithSpecials(text) => self.text_ids(text, true, true),
            PromptInput::Chat(messages) => return self.chat_turn(messages, options),
        };
        Ok(ChatTurn { prompt, thinking: None })
    }

    /// Encodes a text for embedding: with the tokenizer's prefix and suffix, and with special tokens parsed.
    pub fn embed_ids(&self, text: &str) -> Vec<TokenId> {
        let mut ids = self.text_ids(text, true, true);
        let end = self.tokenizer.prompt_suffix();
        if !ids.ends_with(end) {
            ids.extend_from_slice(end);
        }
        ids
    }

    fn render_options(&self, mut options: ChatOptions) -> RenderOptions {
        if let Some(on) = options.thinking {
            options.extra.insert("enable_thinking".to_owned(), on.into());
        }
        RenderOptions {
            add_generation_prompt: options.add_generation_prompt && !options.continue_final,
            continue_final: options.continue_final,
            tools: (!options.tools.is_empty()).then(|| options.tools.into()),
            extra: options.extra,
            bos_token: self.bos_text.clone(),
            eos_token: self.eos_text.clone(),
            specials: self.tokenizer.special_texts().clone(),
            ..RenderOptions::default()
        }
    }

    /// Returns the tokens before a raw prompt: those of the tokenizer, or else the begin token if the chat
    /// template starts with it, because the model was then never trained on text without it.
    fn find_prompt_prefix(&self, bos: Option<TokenId>) -> Vec<TokenId> {
        let prefix = self.tokenizer.prompt_prefix();
        if !prefix.is_empty() {
            return prefix.to_vec();
        }
        let Some(bos) = bos else { return Vec::new() };
        let message = ChatMessage::new("user", "x");
        let rendered = self.chat_prompt(&[message], ChatOptions::default());
        match rendered.map(|prompt| self.tokenizer.encode_prompt(&prompt)) {
            Ok(ids) if ids.first() == Some(&bos) => vec![bos],
            _ => Vec::new(),
        }
    }
}

/// Returns the place of a completion after a prompt.
fn start_after(prompt: &str) -> ThinkingStart {
    let end = prompt.trim_end();
    match (end.ends_with(OPEN_TAG), end.ends_with(CLOSE_TAG)) {
        (true, _) => ThinkingStart::Open,
        (_, true) => ThinkingStart::Answer,
        _ => ThinkingStart::MayOpen,
    }
}

/// Returns the place of a completion that continues a message, or `None` if the message is empty.
fn start_inside(content: &str) -> Option<ThinkingStart> {
    let (open, close) = (content.rfind(OPEN_TAG), content.rfind(CLOSE_TAG));
    match content.trim().is_empty() {
        true => None,
        false if open > close => Some(ThinkingStart::Open),
        false => Some(ThinkingStart::Answer),
    }
}

/// Reads the tokenizer and the chat template of a model file.
pub fn read_text(file: &ModelFile) -> Result<ModelText, OpenError> {
    let invalid = |what: String| OpenError::Model(format!("{}: {what}", file_name(file)));
    let named = |error: TextError| invalid(error.to_string());
    let tokenizer = match file.tokenizer() {
        TokenizerSource::Json(json) => Tokenizer::from_json(json),
        TokenizerSource::Gguf(vocabulary) => Tokenizer::from_gguf(vocabulary.clone()),
        TokenizerSource::Missing { looked } => {
            return Err(invalid(format!("no tokenizer found: looked for {looked}")));
        }
    }
    .map_err(named)?;
    let (info, vocab_len) = (file.info(), file.network().vocab_len);
    if tokenizer.len() > vocab_len {
        return Err(invalid(format!(
            "the tokenizer has {} tokens, but the embedding has only {vocab_len} rows",
            tokenizer.len()
        )));
    }
    let name_of = |id: Option<TokenId>| tokenizer.token_text(id?).map(str::to_owned);
    let texts = file.special_token_texts();
    let mut text = ModelText {
        bos_text: texts.bos.clone().or_else(|| name_of(info.bos)),
        eos_text: texts.eos.clone().or_else(|| name_of(info.eos.last().copied())),
        template: file.chat_template().map(ChatTemplate::new).transpose().map_err(named)?,
        template_source: file.chat_template().map(str::to_owned),
        end_tokens: info.eos.clone(),
        prompt_prefix: Vec::new(),
        pooling: info.pooling,
        thinking_end: OnceLock::new(),
        tokenizer,
    };
    let never_bos =
        matches!(file.tokenizer(), TokenizerSource::Gguf(v) if v.add_bos == Some(false));
    if !never_bos {
        text.prompt_prefix = text.find_prompt_prefix(info.bos);
    }
    Ok(text)
}

/// Returns the name of a model in messages: its first file.
pub(crate) fn file_name(file: &ModelFile) -> String {
    file.format().files.first().map_or_else(|| "the model".to_owned(), |file| file.path.clone())
}
