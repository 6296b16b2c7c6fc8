//! A request to generate text, independent of the API dialect it arrived in.
//!
//! A dialect reads its JSON into a [`Generation`]. From there on all requests take the same way: prompts are
//! tokenized, grammars compiled, and one [`sequences::Sequences`] runs them in the engine.

pub(crate) mod constraint;
mod context;
pub(crate) mod conversation;
pub(crate) mod decoding;
pub(crate) mod embed;
pub(crate) mod fields;
pub(crate) mod logprobs;
pub(crate) mod sequences;
pub(crate) mod thinking;
pub(crate) mod tools;
pub(crate) mod unknown_fields;

use wf_api::wire::{Sampling, Seed};
use wf_core::{SamplingOverrides, SamplingParams, TokenId};
use wf_engine::{
    ChatOptions, DecodeSettings, FrontendError, GenerationRequest, ModelText, PromptInput,
    ThinkingStart, random_seed,
};
use wf_text::ChatMessage;

use crate::error::ApiError;
use crate::models::ServedModel;
use crate::options::Limits;
use constraint::Constraint;
use fields::{check_count, check_range};

pub(crate) use context::{Addressed, Arrival, Context, Meter};
pub(crate) use fields::FieldRules;
pub(crate) use sequences::{SequenceEvent, Sequences};
pub(crate) use thinking::Thinking;
pub(crate) use tools::{ToolChoice, ToolSyntax, Tools, read_openai_choice};

/// Input of a generation, before tokenization.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// Nothing: the client only checks that the model is loaded.
    Empty,
    /// A conversation for the chat template.
    Chat {
        messages: Vec<ChatMessage>,
        options: ChatOptions,
    },
    /// Texts in which names of special tokens stand for those tokens, as in other servers of this API.
    Texts {
        texts: Vec<String>,
        add_bos: bool,
    },
    Tokens(Vec<Vec<TokenId>>),
}

/// Tokens of all prompts.
pub(crate) struct Encoded {
    pub(crate) prompts: Vec<Vec<TokenId>>,
    /// Place of the completions relative to thinking, in a conversation with a model that thinks.
    pub(crate) thinking: Option<ThinkingStart>,
}

impl Prompt {
    pub(crate) fn encode(self, text: &ModelText) -> Result<Encoded, FrontendError> {
        let prompts = match self {
            Self::Empty => Vec::new(),
            Self::Chat { messages, options } => {
                let turn = text.chat_turn(&messages, &options)?;
                return Ok(Encoded { prompts: vec![turn.prompt], thinking: turn.thinking });
            }
            Self::Texts { texts, add_bos } => {
                texts.iter().map(|one| text.text_ids(one, add_bos, true)).collect()
            }
            Self::Tokens(many) => many,
        };
        Ok(Encoded { prompts, thinking: None })
    }

    /// Tokenizes all prompts.
    pub(crate) async fn tokenize(self, model: &ServedModel) -> Result<Encoded, ApiError> {
        if let Self::Chat { messages, .. } = &self {
            conversation::check_arguments(messages)?;
        }
        Ok(model.run(move |frontend| self.encode(frontend.text())).await??)
    }
}

/// Text to generate, and the way to send it.
pub(crate) struct Generation {
    pub(crate) prompt: Prompt,
    /// Name of the request field that holds the prompt.
    pub(crate) prompt_field: &'static str,
    /// Engine settings. Their input is set from `prompt`.
    pub(crate) settings: GenerationRequest,
    pub(crate) seed: Seed,
    pub(crate) choices: u32,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) return_token_ids: bool,
    pub(crate) return_progress: bool,
    /// Lowers `max_tokens` to what the context has room for instead of rejecting the request.
    pub(crate) clamp_max_tokens: bool,
    /// Required shape of the output, until it is compiled.
    pub(crate) constraint: Option<Constraint>,
    pub(crate) tools: Option<Tools>,
    pub(crate) thinking: Thinking,
}

impl Generation {
    /// Checks the settings that all dialects share.
    pub(crate) fn new(
        cx: &Context,
        params: &SamplingOverrides,
        s: Sampling,
        decode: &DecodeSettings,
        prompt_field: &'static str,
        prompt: Prompt,
    ) -> Result<Self, ApiError> {
        let limits = &cx.app.options.limits;
        let seed = s.seed.unwrap_or_else(|| random_seed().into());
        let (max_tokens, min_tokens) = (s.max_tokens, s.min_tokens.unwrap_or(0));
        if max_tokens.is_some_and(|max| min_tokens > max) {
            let message = format!("min_tokens ({min_tokens}) must not exceed max_tokens");
            return Err(ApiError::field("min_tokens", message));
        }
        let choices = s.n.unwrap_or(1);
        check_range("n", choices, 1..=limits.choices)?;
        let stream = s.stream.unwrap_or(false);
        if s.stream_options.is_some() && !stream {
            let message = "stream_options needs stream to be true";
            return Err(ApiError::field("stream_options", message));
        }
        let settings = GenerationRequest {
            sampling: SamplingParams {
                logit_bias: logit_biases(&s, limits)?,
                ..cx.model.defaults.clone().with(params)
            },
            decode: decode
                .resolve(cx.model.decode)
                .map_err(|error| ApiError::field("decode", error.to_string()))?,
            seed: Some(seed.bits()),
            include_specials: !s.skip_special_tokens.unwrap_or(true),
            max_tokens: max_tokens.map(|max| max as usize),
            min_tokens: min_tokens as usize,
            stop: stop_strings(s.stop.map(Vec::from).unwrap_or_default(), limits)?,
            stop_tokens: stop_tokens(&cx.model, s.stop_token_ids.unwrap_or_default(), limits)?,
            ignore_eos: s.ignore_eos.unwrap_or(false),
            cache_salt: cx.app.salt(&cx.caller, s.cache_salt.as_deref()),
            priority: s.priority.unwrap_or(0),
            origin: cx.origin(s.priority.unwrap_or(0)),
            max_kv_tokens: cx.max_kv_tokens(),
            deadline: Some(cx.deadline()),
            ..GenerationRequest::new(PromptInput::Tokens(Vec::new()))
        };
        Ok(Self {
            prompt,
            prompt_field,
            settings,
            seed,
            choices,
            stream,
            include_usage: s.stream_options.and_then(|options| options.include_usage) == Some(true),
            return_token_ids: s.return_token_ids.unwrap_or(false),
            return_progress: s.return_progress.unwrap_or(false),
            clamp_max_tokens: false,
            constraint: None,
            tools: None,
            thinking: Thinking::default(),
        })
    }

    /// Tokenizes the prompts and checks that the context has room for them and for the output.
    pub(crate) async fn tokenize(&mut self, cx: &Context) -> Result<Vec<Vec<TokenId>>, ApiError> {
        let mut prompt = std::mem::replace(&mut self.prompt, Prompt::Empty);
        if let Prompt::Chat { options, .. } = &mut prompt {
            options.thinking = self.thinking.enabled;
            options.opens_thinking = self.thinking.max_tokens.is_some()
                || self.constraint.is_some()
                || self.tools.is_some();
        }
        let Encoded { prompts, thinking } = prompt.tokenize(&cx.model).await?;
        self.settings.thinking = thinking;
        self.settings.max_thinking_tokens = self.thinking.max_tokens;
        let max_len = cx.max_len();
        let prompt_len = prompts.iter().map(Vec::len).max().unwrap_or(0);
        if self.clamp_max_tokens {
            self.clamp(max_len.saturating_sub(prompt_len).max(1));
        }
        let output_len = self.settings.max_tokens.unwrap_or(1);
        if prompt_len + output_len <= max_len {
            return Ok(prompts);
        }
        let output = match self.settings.max_tokens {
            Some(max) => format!("max_tokens is {max}"),
            None => "the output needs at least one more".to_owned(),
        };
        let message = format!(
            "the prompt has {prompt_len} tokens and {output}, which exceeds the context of \
             {max_len} tokens"
        );
        Err(ApiError::too_long(self.prompt_field, message))
    }

    /// Returns `true` if completions may begin with thinking. Known once the prompts are tokenized.
    pub(crate) fn may_think(&self) -> bool {
        matches!(self.settings.thinking, Some(ThinkingStart::Open | ThinkingStart::MayOpen))
    }

    /// Lowers `max_tokens` to the room in the context, and then leaves a quarter of it to the answer.
    fn clamp(&mut self, room: usize) {
        let settings = &mut self.settings;
        if settings.max_tokens.is_some_and(|max| max > room) {
            settings.max_tokens = Some(room);
            settings.max_thinking_tokens =
                settings.max_thinking_tokens.map(|max| max.min(room - room.div_ceil(4)));
        }
    }

    /// Compiles the grammar that the output has to follow, if there is one.
    pub(crate) async fn compile(&mut self, model: &ServedModel) -> Result<(), ApiError> {
        if let Some(tools) = &mut self.tools {
            self.settings.visible_specials = model.frontend.text().tool_call_tokens();
            self.settings.grammar = tools.compile(model, self.constraint.take()).await?;
        }
        if let Some(constraint) = self.constraint.take() {
            self.settings.grammar = Some(constraint.compile(model).await?);
        }
        Ok(())
    }
}

fn logit_biases(s: &Sampling, limits: &Limits) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let Some(biases) = &s.logit_bias else { return Ok(Vec::new()) };
    check_count("logit_bias", biases.len(), limits.logit_biases)?;
    let parse = |(token, bias): (&String, &f32)| match token.parse() {
        Ok(token) => Ok((token, *bias)),
        Err(_) => {
            let what = format!("{token:?} is not a token id, such as \"42\"");
            Err(ApiError::at("logit_bias", &what))
        }
    };
    biases.iter().map(parse).collect()
}

fn stop_strings(stop: Vec<String>, limits: &Limits) -> Result<Vec<String>, ApiError> {
    check_count("stop", stop.len(), limits.stop_strings)?;
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::at("stop", "must not contain an empty string"));
    }
    if let Some(text) = stop.iter().find(|text| text.len() > limits.stop_len) {
        let (len, max) = (text.len(), limits.stop_len);
        let what = format!("a string has {len} bytes: must have at most {max}");
        return Err(ApiError::at("stop", &what));
    }
    Ok(stop)
}

fn stop_tokens(
    model: &ServedModel,
    tokens: Vec<TokenId>,
    limits: &Limits,
) -> Result<Vec<TokenId>, ApiError> {
    check_count("stop_token_ids", tokens.len(), limits.logit_biases)?;
    model.check_tokens("stop_token_ids", &tokens)?;
    Ok(tokens)
}
