//! A request to generate text, independent of the API dialect it arrived in.
//!
//! A dialect reads its JSON into a [`Generation`]. From there on all requests take the same way: prompts are
//! tokenized, grammars compiled, and one [`sequences::Sequences`] runs them in the engine.

pub(crate) mod constraint;
pub(crate) mod conversation;
pub(crate) mod decoding;
pub(crate) mod embed;
pub(crate) mod fields;
pub(crate) mod logprobs;
pub(crate) mod sequences;
pub(crate) mod tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use wf_api::wire::{Sampling, Seed};
use wf_core::{SamplingOverrides, SamplingParams, TokenId};
use wf_engine::{
    ChatOptions, DecodeSettings, FrontendError, GenerationRequest, ModelText, Origin, PromptInput,
    Timings, random_seed,
};
use wf_text::ChatMessage;

use crate::access::{Caller, Key, Permit};
use crate::app::{App, ServedModel};
use crate::error::ApiError;
use crate::http::request_id;
use crate::observe::in_flight::InFlightGuard;
use crate::observe::log::RequestLog;
use crate::options::Limits;
use constraint::Constraint;
use fields::{check_count, check_range};

pub(crate) use fields::FieldRules;
pub(crate) use sequences::{SequenceEvent, Sequences};
pub(crate) use tools::{ToolChoice, ToolSyntax, Tools, read_openai_choice};

/// A request that needs the model, and the server it arrived at.
pub(crate) struct Context {
    pub(crate) app: App,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) caller: Caller,
    /// Place among the requests of its key, until the last copy is dropped.
    permit: Option<Arc<Permit>>,
    log: Option<RequestLog>,
    /// Shares of the machine are divided between origins.
    origin: Origin,
    pub(crate) request_id: String,
}

impl Context {
    /// Rejects the request while the model is loading.
    pub(crate) fn new(app: &App, request: &Request<Body>) -> Result<Self, ApiError> {
        let model = Arc::clone(app.model()?);
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.ok_or_else(ApiError::unauthorized)?;
        let limited = |refusal| ApiError::limited(&caller.name(), &refusal);
        let permit = caller.begin().map_err(limited)?.map(Arc::new);
        let log = request.extensions().get::<RequestLog>().cloned();
        let request_id = request_id::of(request.extensions());
        let origin = app.origin(&caller);
        Ok(Self { app: app.clone(), model, caller, permit, log, origin, request_id })
    }
}

impl Context {
    /// Returns the origin of a sequence of this request. A priority counts among all callers if the key may set it.
    pub(crate) fn origin(&self, priority: i32) -> Origin {
        let tier =
            if self.caller.key().is_some_and(|key| key.may_prioritize) { priority } else { 0 };
        Origin { tier, ..self.origin }
    }

    /// Adds a sequence to the list of those in flight.
    pub(crate) fn enter(&self, prompt_tokens: usize) -> InFlightGuard {
        self.app.in_flight.enter(&self.request_id, self.origin.caller, prompt_tokens)
    }

    /// Returns the number of tokens that the key may have in the KV cache, if it is limited.
    pub(crate) fn max_kv_tokens(&self) -> Option<usize> {
        let share = self.caller.key()?.limits.kv_share?;
        Some((self.model.frontend.engine().kv_tokens() as f64 * share) as usize)
    }

    /// Returns the maximum number of tokens of prompt and completion.
    pub(crate) fn context_len(&self) -> usize {
        let context_len = self.model.frontend.context_len();
        self.max_kv_tokens().map_or(context_len, |max| max.min(context_len))
    }

    /// Returns the counters of what this request uses.
    pub(crate) fn meter(&self) -> Meter {
        let key = self.caller.key().map(|key: &Key| key.name.clone());
        let (permit, log) = (self.permit.clone(), self.log.clone());
        Meter { app: self.app.clone(), key, permit, log }
    }
}

/// Counts the tokens of a request, in total and for its key. The request ends with its last meter.
#[derive(Clone)]
pub(crate) struct Meter {
    app: App,
    key: Option<String>,
    permit: Option<Arc<Permit>>,
    log: Option<RequestLog>,
}

impl Meter {
    /// Counts a prompt with `choices` completions.
    pub(crate) fn count_prompt(&self, tokens: usize, choices: usize) {
        self.app.metrics.count_prompt(tokens, choices);
        self.log.iter().for_each(|log| log.count_prompt(tokens));
        self.spend(tokens, 0);
    }

    pub(crate) fn count_token(&self, since_arrival: Duration, since_last: Option<Duration>) {
        self.app.metrics.count_token(since_arrival, since_last);
        self.log.iter().for_each(|log| log.count_token(since_arrival));
        self.spend(0, 1);
    }

    /// Counts the end of a sequence.
    pub(crate) fn count_end(&self, finish_reason: &'static str, timings: Option<&Timings>) {
        self.app.metrics.count_end(finish_reason, timings);
        if let (Some(log), Some(timings)) = (&self.log, timings) {
            log.note_queue(timings.queued);
        }
    }

    /// Notes the error that ended a response after its head.
    pub(crate) fn note_error(&self, error: &ApiError) {
        self.log.iter().for_each(|log| log.set_error(error.code));
    }

    fn spend(&self, prompt: usize, completion: usize) {
        if let Some(permit) = &self.permit {
            permit.spend_tokens(prompt + completion);
        }
        if let Some(key) = &self.key {
            self.app.metrics.count_key_tokens(key, prompt, completion);
        }
    }
}

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

impl Prompt {
    fn encode(self, text: &ModelText) -> Result<Vec<Vec<TokenId>>, FrontendError> {
        Ok(match self {
            Self::Empty => Vec::new(),
            Self::Chat { messages, options } => {
                let prompt = text.chat_prompt(&messages, options)?;
                vec![text.tokenizer.encode_prompt(&prompt)]
            }
            Self::Texts { texts, add_bos } => {
                texts.iter().map(|one| text.text_ids(one, add_bos, true)).collect()
            }
            Self::Tokens(many) => many,
        })
    }

    /// Tokenizes all prompts.
    pub(crate) async fn tokenize(self, model: &ServedModel) -> Result<Vec<Vec<TokenId>>, ApiError> {
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
            deadline: Some(Instant::now() + limits.deadline),
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
        })
    }

    /// Tokenizes the prompts and checks that the context has room for them and for the output.
    pub(crate) async fn tokenize(&mut self, cx: &Context) -> Result<Vec<Vec<TokenId>>, ApiError> {
        let prompt = std::mem::replace(&mut self.prompt, Prompt::Empty);
        let prompts = prompt.tokenize(&cx.model).await?;
        let context_len = cx.context_len();
        let prompt_len = prompts.iter().map(Vec::len).max().unwrap_or(0);
        if self.clamp_max_tokens {
            let room = context_len.saturating_sub(prompt_len).max(1);
            self.settings.max_tokens = self.settings.max_tokens.map(|max| max.min(room));
        }
        let output_len = self.settings.max_tokens.unwrap_or(1);
        if prompt_len + output_len <= context_len {
            return Ok(prompts);
        }
        let output = match self.settings.max_tokens {
            Some(max) => format!("max_tokens is {max}"),
            None => "the output needs at least one more".to_owned(),
        };
        let message = format!(
            "the prompt has {prompt_len} tokens and {output}, which exceeds the context of \
             {context_len} tokens"
        );
        Err(ApiError::too_long(self.prompt_field, message))
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
