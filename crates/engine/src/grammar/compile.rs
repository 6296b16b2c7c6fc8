//! Text to grammar, against the tokens of one model. All of this runs on the caller's side.
//!
//! Whoever asks chooses the source, so nothing of it is trusted: see `limits.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{
    ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Map, Value, json};
use wf_model::TokenId;
use wf_text::Tokenizer;

use super::bnf::{is_bnf, to_lark};
use super::limits;
use super::narrow::{joins, narrow};
use super::schema::{check_multiples, drop_idle_words};
use super::{BadGrammar, Grammar, GrammarSource};

/// The stack to compile on: `llguidance` calls itself for nested sources, and running out of stack would
/// end the process. Only what is touched of it takes memory.
const STACK_BYTES: usize = 256 << 20;
/// After this, nobody waits any more.
const LONGEST_COMPILE: Duration = Duration::from_secs(3);
/// How many are compiled at once.
const MOST_COMPILING: usize = 4;
/// Compiled grammars that are kept for those who ask again: so many, of so many bytes together.
const MOST_KEPT: usize = 256;
const MOST_KEPT_BYTES: usize = 64 << 20;
/// Characters of a message about a source.
const MOST_SAID: usize = 400;
/// Tokens longer than this are never part of a reply with a grammar: the tree of tokens has no place for
/// them.
const LONGEST_TOKEN: usize = 512;
/// What stands between the parts of JSON, and there is no other white space: a model that likes it would
/// write nothing else, and what can only be one thing need not be asked for.
const SEPARATORS: [&str; 2] = [", ", ": "];

/// Makes grammars for one model, and keeps those it made last.
pub struct Grammars {
    pub(super) factory: Arc<ParserFactory>,
    /// Asked for last first. Only callers wait for this lock: the engine never takes it.
    kept: Mutex<Vec<(GrammarSource, Grammar)>>,
    /// Held by every thread that compiles.
    places: Arc<()>,
}

impl Grammars {
    /// For a model with these tokens, of which some end replies.
    ///
    /// # Errors
    ///
    /// If the tokens make no tree.
    pub fn new(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> Result<Self, BadGrammar> {
        let build = || -> Result<ParserFactory, String> {
            let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie(tokenizer, end_tokens)));
            let slices = llguidance::earley::SlicedBiasComputer::general_slices();
            let mut factory =
                ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices)
                    .map_err(|error| error.to_string())?;
            factory.quiet();
            *factory.limits_mut() = limits::of_the_parser();
            Ok(factory)
        };
        // A vocabulary beyond what the tree can hold ends in a panic there.
        let built = catch_unwind(AssertUnwindSafe(build))
            .unwrap_or_else(|_| Err("too many tokens, or too long ones".to_owned()));
        let why =
            |why: String| BadGrammar::new(format!("this model's tokens cannot follow one: {why}"));
        Ok(Self {
            factory: Arc::new(built.map_err(why)?),
            kept: Mutex::default(),
            places: Arc::default(),
        })
    }

    /// The grammar of a source, made or kept. Can take some tens of milliseconds.
    ///
    /// # Errors
    ///
    /// What is wrong with the source.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, BadGrammar> {
        if let Some(kept) = self.find(source) {
            return Ok(kept);
        }
        limits::check(source)?;
        let grammar = self.compile_aside(source.clone())?;
        let size_bytes = grammar.size_bytes + source.size_bytes();
        let grammar = Grammar { size_bytes, ..grammar };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(0, (source.clone(), grammar.clone()));
        let mut bytes = 0;
        let fits = kept.iter().take(MOST_KEPT).take_while(|(_, grammar)| {
            bytes += grammar.size_bytes;
            bytes <= MOST_KEPT_BYTES
        });
        let fits = fits.count();
        kept.truncate(fits);
        Ok(grammar)
    }

    fn find(&self, source: &GrammarSource) -> Option<Grammar> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == source)?;
        kept[..=at].rotate_right(1);
        Some(kept[0].1.clone())
    }

    /// Compiles on a thread with a deep stack, for as long as anyone waits. One that nobody waits for any
    /// more keeps its place until it is done, so that there are never many.
    fn compile_aside(&self, source: GrammarSource) -> Result<Grammar, BadGrammar> {
        let place = Arc::clone(&self.places);
        // Beside those that compile, `self` and this very call hold one.
        if Arc::strong_count(&place) - 2 >= MOST_COMPILING {
            return Err(BadGrammar::Busy(MOST_COMPILING));
        }
        let factory = Arc::clone(&self.factory);
        let (sender, result) = mpsc::sync_channel(1);
        let run = move || {
            // Nobody may wait for it any more.
            let _ = sender.send(top_level(&source).and_then(|top| compile(&factory, top)));
            drop(place);
        };
        let thread = thread::Builder::new().name("wf-grammar".into()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|_| BadGrammar::Busy(MOST_COMPILING))?;
        result.recv_timeout(LONGEST_COMPILE).unwrap_or_else(|_| {
            let seconds = LONGEST_COMPILE.as_secs();
            Err(BadGrammar::new(format!("it takes more than {seconds} seconds to compile")))
        })
    }
}

pub(super) fn compile(
    factory: &ParserFactory,
    top: TopLevelGrammar,
) -> Result<Grammar, BadGrammar> {
    let parser = factory.create_parser(top).map_err(|error| said(&error))?;
    let size_bytes = parser.parser.lexer_stats().num_bytes;
    let mut matcher = Matcher::new(Ok(parser));
    // Also finds out whether there is a way to begin at all.
    let can_begin = matcher.is_accepting().unwrap_or(false) || matcher.compute_mask().is_ok();
    if !can_begin {
        let why = matcher.get_error().filter(|why| !why.starts_with("NoExtension"));
        let no_text = || BadGrammar::new("no text of this model's tokens has this form");
        return Err(why.map_or_else(no_text, |why| said(&why)));
    }
    Ok(Grammar { start: Arc::new(matcher), size_bytes })
}

/// The tree of all tokens. Those that steer the model are no text, and none of them is the end: a reply's
/// stop tokens are its own matter.
fn trie(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> TokTrie {
    let bytes = |token: TokenId| match tokenizer.piece(token) {
        Some(piece) if piece.len() > LONGEST_TOKEN => Vec::new(),
        Some(piece) if tokenizer.is_special(token) || end_tokens.contains(&token) => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], piece].concat()
        }
        Some(piece) => piece.to_vec(),
        None => Vec::new(),
    };
    let tokens: Vec<_> = (0..tokenizer.len() as TokenId).map(bytes).collect();
    TokTrie::from(&TokRxInfo::new(tokens.len() as u32, INVALID_TOKEN), &tokens)
}

fn top_level(source: &GrammarSource) -> Result<TopLevelGrammar, BadGrammar> {
    Ok(match source {
        GrammarSource::JsonSchema(schema) => {
            let mut schema = schema.clone();
            narrow(&mut schema);
            top_level_of_schema(schema)?
        }
        GrammarSource::Calls(calls) => TopLevelGrammar::from_lark(calls.to_lark()?),
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

/// Values of a schema, as it stands.
pub(super) fn top_level_of_schema(schema: Value) -> Result<TopLevelGrammar, BadGrammar> {
    Ok(TopLevelGrammar::from_json_schema(prepared(schema)?))
}

/// A schema as `llguidance` is to follow it.
pub(super) fn prepared(mut schema: Value) -> Result<Value, BadGrammar> {
    drop_idle_words(&mut schema);
    check_multiples(&schema, joins(&schema))?;
    let mut fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(true) => Map::new(),
        _ => return Err(BadGrammar::new("no value is of this schema")),
    };
    let [item, key] = SEPARATORS;
    let options =
        json!({"item_separator": item, "key_separator": key, "whitespace_flexible": false});
    fields.insert("x-guidance".to_owned(), options);
    Ok(fields.into())
}

/// What `llguidance` says of a source, in one line. What comes after a tag is for its own authors.
fn said(error: &impl std::fmt::Display) -> BadGrammar {
    let text = error.to_string();
    if text.starts_with("panic") {
        return BadGrammar::new("it cannot be compiled");
    }
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with('<'));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    BadGrammar::new(in_our_words(&line).chars().take(MOST_SAID).collect::<String>())
}

/// Messages that name options which nobody has here.
fn in_our_words(line: &str) -> String {
    if let Some(words) = line.strip_prefix("Unimplemented keys: ") {
        return format!("these words of JSON Schema are not supported: {words}");
    }
    if line.starts_with("Unable to determine if regex is empty") {
        return "its patterns are too complex together".into();
    }
    if line.starts_with("oneOf constraints are not supported") {
        return "oneOf is supported only where no value can be of two of its schemas: use anyOf"
            .into();
    }
    if let Some((_, reference)) = line.split_once("without 'referencing' feature; ref ") {
        return format!(
            "$ref {reference}: only references into the schema itself, #/…, are supported"
        );
    }
    line.to_owned()
}
