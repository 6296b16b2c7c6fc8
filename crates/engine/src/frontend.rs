//! The text side of an engine, on the caller's thread: prompts become token ids, events become text.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use wf_core::SamplingParams;
use wf_model::TokenId;
use wf_text::{ThinkingStart, Tokenizer};

use crate::error::FrontendError;
use crate::generation_request::GenerationRequest;
use crate::grammar::{Grammar, GrammarError, GrammarSource, Grammars};
use crate::handle::EngineHandle;
use crate::model_text::{ChatOptions, ModelText, PromptInput};
use crate::output::Limits;
use crate::request::Request;
use crate::text_stream::{StreamOptions, TextStream};
use crate::thinking::Thinking;

/// A model's text side together with its engine.
#[derive(Clone)]
pub struct Frontend {
    text: Arc<ModelText>,
    engine: EngineHandle,
    /// Grammar compiler, built when the first grammar is compiled.
    grammars: Arc<OnceLock<Result<Grammars, GrammarError>>>,
}

impl Frontend {
    /// Creates a frontend for an engine.
    pub fn new(text: ModelText, engine: EngineHandle) -> Self {
        Self { text: Arc::new(text), engine, grammars: Arc::default() }
    }

    /// Returns the tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.text.tokenizer
    }

    /// Returns the tokenizer, chat template and special tokens of the model.
    pub fn text(&self) -> &ModelText {
        &self.text
    }

    /// Returns the handle of the engine.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// Waits until the engine has ended and its memory is free, which is when the last copy of this is gone.
    pub fn close(self) {
        self.engine.close();
    }

    /// Returns the maximum number of tokens of prompt and completion.
    pub fn context_len(&self) -> usize {
        self.engine.context_len()
    }

    /// Compiles a grammar. The first call takes longer: it builds the trie of all tokens.
    ///
    /// # Errors
    ///
    /// If `source` is invalid or too complex.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        let make = || Grammars::new(&self.text.tokenizer, &self.text.end_tokens);
        self.grammars.get_or_init(make).as_ref().map_err(Clone::clone)?.compile(source)
    }

    /// Starts a completion.
    pub fn generate(&self, request: GenerationRequest) -> Result<TextStream, FrontendError> {
        let limited = request.max_thinking_tokens.is_some();
        if limited || request.enable_thinking == Some(true) {
            let is_chat = matches!(request.input, PromptInput::Chat(_));
            if !(is_chat && self.text.can_think()) {
                return Err(FrontendError::NoThinking { is_chat });
            }
        }
        let options = ChatOptions {
            thinking: request.enable_thinking,
            opens_thinking: limited || request.grammar.is_some(),
            ..ChatOptions::default()
        };
        let turn = self.text.turn(&request.input, &options)?;
        self.generate_from(turn.prompt, GenerationRequest { thinking: turn.thinking, ..request })
    }

    /// Starts a completion of an encoded prompt. The input of `request` is ignored.
    pub fn generate_from(
        &self,
        prompt: Vec<TokenId>,
        request: GenerationRequest,
    ) -> Result<TextStream, FrontendError> {
        let seed = request.seed.unwrap_or_else(random_seed);
        let mut stop_tokens = request.stop_tokens;
        if !request.ignore_eos {
            stop_tokens.extend(&self.text.end_tokens);
        }
        let mut visible_specials = request.visible_specials;
        if request.thinking.is_some() {
            visible_specials.extend(self.text.thinking_tokens());
        }
        // Otherwise the engine need not know where thinking ends.
        let is_followed = request.grammar.is_some() || request.max_thinking_tokens.is_some();
        let is_open = request.thinking == Some(ThinkingStart::Open);
        let thinking = (is_open && is_followed).then(|| Thinking {
            end: self.text.thinking_end(),
            max_tokens: request.max_thinking_tokens,
        });
        let options = StreamOptions {
            prompt: prompt.clone(),
            seed,
            stop: request.stop,
            stop_tokens: stop_tokens.clone(),
            include_specials: request.include_specials,
            visible_specials,
            thinking: request.thinking,
            is_left_to_right: request.decode.is_left_to_right(),
            window: self.engine.attention().window(),
        };
        let submitted = Instant::now();
        let events = self.engine.submit(Request {
            prompt,
            sampling: SamplingParams { seed, ..request.sampling },
            grammar: request.grammar,
            thinking,
            decode: request.decode,
            limits: Limits {
                max_tokens: request.max_tokens.unwrap_or(usize::MAX),
                stop_tokens,
                min_tokens: request.min_tokens,
                deadline: request.deadline,
            },
            logprobs: request.logprobs,
            prompt_logprobs: request.prompt_logprobs,
            cache_salt: request.cache_salt,
            priority: request.priority,
            origin: request.origin,
            max_kv_tokens: request.max_kv_tokens,
        })?;
        Ok(TextStream::new(Arc::clone(&self.text), events, submitted, options))
    }
}

/// Returns a random seed.
pub fn random_seed() -> u64 {
    // The standard library keys its hashers from the system's randomness. 53 bits survive every JSON parser,
    // so a client can send the reported seed back.
    RandomState::new().hash_one(0) >> 11
}
