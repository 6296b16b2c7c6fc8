//! Compiles grammars against the tokens of one model, on the caller's thread.
//!
//! Clients choose the source, so it is not trusted: see `limits.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Map, Value, json};
use wf_model::TokenId;
use wf_text::Tokenizer;

use super::bnf::{is_bnf, to_lark};
use super::bounded::{self, Failure};
use super::limits;
use super::narrow::{joins, narrow};
use super::schema::{check_multiples, drop_idle_keywords};
use super::slots::Slots;
use super::{Grammar, GrammarError, GrammarSource};

/// Stack of a compiling thread: `llguidance` recurses into nested sources, and a stack overflow would end the
/// process. Only touched pages take memory.
const STACK_BYTES: usize = 256 << 20;
const COMPILE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of grammars that compile at once, and the longest wait of another.
const MAX_COMPILING: usize = 4;
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Maximum number and total size of cached grammars.
const MAX_CACHED: usize = 256;
const MAX_CACHED_BYTES: usize = 64 << 20;
/// Maximum length of an error message of `llguidance`, in characters.
const MAX_MESSAGE: usize = 400;
/// Maximum length of a token in the trie. Longer ones are never sampled under a grammar.
const MAX_TOKEN_BYTES: usize = 512;
/// Separators in JSON. No other white space is allowed: some models would write nothing else, and forced tokens
/// need no sampling.
const SEPARATORS: [&str; 2] = [", ", ": "];

/// Compiler and cache of grammars for one model.
pub struct Grammars {
    pub(super) factory: Arc<ParserFactory>,
    /// Most recently used first. Only callers take this lock, never the engine.
    cached: Mutex<Vec<(GrammarSource, Grammar)>>,
    slots: Arc<Slots>,
}

impl Grammars {
    /// Creates a compiler for a model with these tokens.
    ///
    /// # Errors
    ///
    /// If no trie can be built from the tokens.
    pub fn new(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> Result<Self, GrammarError> {
        let build = || -> Result<ParserFactory, String> {
            let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie(tokenizer, end_tokens)));
            let slices = llguidance::earley::SlicedBiasComputer::general_slices();
            let mut factory =
                ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
                    .map_err(|error| error.to_string())?;
            factory.quiet();
            *factory.limits_mut() = limits::parser_limits();
            Ok(factory)
        };
        // `llguidance` panics for a vocabulary that exceeds the trie.
        let built = catch_unwind(AssertUnwindSafe(build))
            .unwrap_or_else(|_| Err("too many tokens, or tokens that are too long".to_owned()));
        let why = |why: String| {
            GrammarError::new(format!("this model's vocabulary does not support grammars: {why}"))
        };
        Ok(Self {
            factory: Arc::new(built.map_err(why)?),
            cached: Mutex::default(),
            slots: Slots::new(MAX_COMPILING),
        })
    }

    /// Compiles a grammar, or returns it from the cache. Compiling can take some tens of milliseconds.
    ///
    /// # Errors
    ///
    /// If the source is invalid or exceeds a limit, or if others take too long to compile.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        if let Some(cached) = self.find(source) {
            return Ok(cached);
        }
        limits::check(source)?;
        let grammar = self.compile_on_thread(source.clone())?;
        let size_bytes = grammar.size_bytes + source.size_bytes();
        let grammar = Grammar { size_bytes, ..grammar };
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.insert(0, (source.clone(), grammar.clone()));
        let mut bytes = 0;
        let fits = cached.iter().take(MAX_CACHED).take_while(|(_, grammar)| {
            bytes += grammar.size_bytes;
            bytes <= MAX_CACHED_BYTES
        });
        let fits = fits.count();
        cached.truncate(fits);
        Ok(grammar)
    }

    fn find(&self, source: &GrammarSource) -> Option<Grammar> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cached.iter().position(|(known, _)| known == source)?;
        cached[..=at].rotate_right(1);
        Some(cached[0].1.clone())
    }

    /// Compiles on a thread with a deep stack, up to the time limit. A thread that exceeds it keeps its slot until
    /// it is done, which bounds their number.
    fn compile_on_thread(&self, source: GrammarSource) -> Result<Grammar, GrammarError> {
        let slot = self.slots.take(MAX_WAIT).ok_or(GrammarError::Busy(MAX_COMPILING))?;
        let factory = Arc::clone(&self.factory);
        let (sender, result) = mpsc::sync_channel(1);
        let run = move || {
            // The receiver is gone after the time limit.
            let _ = sender.send(compile_source(&factory, &source));
            drop(slot);
        };
        let thread = thread::Builder::new().name("wf-grammar".into()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|_| GrammarError::Busy(MAX_COMPILING))?;
        result.recv_timeout(COMPILE_TIMEOUT).unwrap_or_else(|_| {
            let seconds = COMPILE_TIMEOUT.as_secs();
            Err(GrammarError::new(format!(
                "compiling takes longer than the limit of {seconds} seconds"
            )))
        })
    }
}

fn compile_source(
    factory: &ParserFactory,
    source: &GrammarSource,
) -> Result<Grammar, GrammarError> {
    let limits =
        ParserLimits { max_lexer_states: limits::max_states(source), ..factory.limits().clone() };
    compile(factory, top_level(source)?, limits)
}

pub(super) fn compile(
    factory: &ParserFactory,
    top: TopLevelGrammar,
    limits: ParserLimits,
) -> Result<Grammar, GrammarError> {
    let parser = bounded::parser(factory, top, limits).map_err(|failure| match failure {
        Failure::Library(message) => source_error(&message),
        Failure::Limit(error) => error,
    })?;
    let size_bytes = parser.parser.lexer_stats().num_bytes;
    let mut matcher = Matcher::new(Ok(parser));
    // Computing a mask also shows whether any text is possible.
    let can_begin = matcher.is_accepting().unwrap_or(false) || matcher.compute_mask().is_ok();
    if !can_begin {
        let why = matcher.get_error().filter(|why| !why.starts_with("NoExtension"));
        let no_text = || GrammarError::new("no text of this model's tokens matches the grammar");
        return Err(why.map_or_else(no_text, |why| source_error(&why)));
    }
    Ok(Grammar { start: Arc::new(matcher), size_bytes })
}

/// Builds the trie of all tokens. Special tokens are not text, and none of them is the end token: stop tokens are
/// handled per request.
fn trie(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> TokTrie {
    let bytes = |token: TokenId| match tokenizer.token_bytes(token) {
        Some(piece) if piece.len() > MAX_TOKEN_BYTES => Vec::new(),
        Some(piece) if tokenizer.is_special(token) || end_tokens.contains(&token) => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], piece].concat()
        }
        Some(piece) => piece.to_vec(),
        None => Vec::new(),
    };
    let tokens: Vec<_> = (0..tokenizer.len() as TokenId).map(bytes).collect();
    TokTrie::from(&TokRxInfo::new(tokens.len() as u32, INVALID_TOKEN), &tokens)
}

fn top_level(source: &GrammarSource) -> Result<TopLevelGrammar, GrammarError> {
    Ok(match source {
        GrammarSource::JsonSchema(schema) => {
            let mut schema = schema.clone();
            narrow(&mut schema);
            top_level_of_schema(schema)?
        }
        GrammarSource::ToolCalls(calls) => TopLevelGrammar::from_lark(calls.to_lark()?),
        GrammarSource::Regex(regex) => TopLevelGrammar::from_regex(regex),
        GrammarSource::Grammar(grammar) => {
            let lark = if is_bnf(grammar) { to_lark(grammar)? } else { grammar.clone() };
            limits::check_lark(&lark)?;
            TopLevelGrammar::from_lark(lark)
        }
        GrammarSource::Choice(texts) => {
            let quoted: Vec<_> =
                texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect();
            TopLevelGrammar::from_lark(format!("start: TEXT\nTEXT: {}", quoted.join(" | ")))
        }
    })
}

/// Returns the grammar of a schema as it is.
pub(super) fn top_level_of_schema(schema: Value) -> Result<TopLevelGrammar, GrammarError> {
    Ok(TopLevelGrammar::from_json_schema(prepared(schema)?))
}

/// Returns a schema with the options of `llguidance`.
pub(super) fn prepared(mut schema: Value) -> Result<Value, GrammarError> {
    drop_idle_keywords(&mut schema);
    check_multiples(&schema, joins(&schema))?;
    let mut fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(true) => Map::new(),
        _ => return Err(GrammarError::new("no value matches this schema")),
    };
    let [item, key] = SEPARATORS;
    let options =
        json!({"item_separator": item, "key_separator": key, "whitespace_flexible": false});
    fields.insert("x-guidance".to_owned(), options);
    Ok(fields.into())
}

/// Formats an error of `llguidance` in one line. What follows a tag is for its authors.
fn source_error(error: &impl std::fmt::Display) -> GrammarError {
    let text = error.to_string();
    if text.starts_with("panic") {
        return GrammarError::new("the grammar cannot be compiled");
    }
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with('<'));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    GrammarError::new(reworded(&line).chars().take(MAX_MESSAGE).collect::<String>())
}

/// Rewrites messages that name options which do not exist here.
fn reworded(line: &str) -> String {
    if let Some(words) = line.strip_prefix("Unimplemented keys: ") {
        return format!("JSON Schema keywords that are not supported: {words}");
    }
    let too_complex = ["Unable to determine if regex is empty", "too many expressions constructed"];
    if too_complex.iter().any(|message| line.contains(message)) {
        return "its patterns are too complex in combination".into();
    }
    if line.starts_with("oneOf constraints are not supported") {
        return "oneOf is supported only if no value can match two of its schemas: use anyOf"
            .into();
    }
    if let Some((_, reference)) = line.split_once("without 'referencing' feature; ref ") {
        return format!("$ref {reference}: must be a reference into the schema itself, #/…");
    }
    line.to_owned()
}
