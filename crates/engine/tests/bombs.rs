//! Grammars made to take long, or a lot of memory: each is rejected or cheap.
//!
//! A counting allocator measures bytes. Time is that of the processor, so that other programs do not count; it is
//! printed, and only excessive time fails, because machines differ.

#![expect(clippy::print_stdout, reason = "times are for people to read")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use wf_engine::{Grammar, GrammarSource, Grammars, Limits, Sampler, SamplingParams, read_text};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::LogitsRow;
use wf_text::Tokenizer;

/// Maximum number of bytes of a grammar: for compiling it, and for each completion that follows it.
const MAX_BYTES: usize = 16 << 20;
/// Limit of processor time on any machine.
const TOO_LONG: Duration = Duration::from_secs(2);

/// Counts the bytes in use and their maximum.
struct Counting;

/// What every test starts from. Only one exists at a time, because the bytes of another test would count as its own.
///
/// Tests name the lock first, so that it is released last.
struct Fixture {
    _alone: MutexGuard<'static, ()>,
    tokenizer: Tokenizer,
    grammars: Grammars,
}

impl Fixture {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tokenizer = tokenizer();
        let grammars = Grammars::new(&tokenizer, &[]).expect("a tree");
        Self { _alone: alone, tokenizer, grammars }
    }
}

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`. Returns its result, its duration and its maximum of additional bytes.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let (done, took) = timed(work);
    (done, took, PEAK.load(Relaxed).saturating_sub(before))
}

/// Runs `work`. Returns its result and the time that it took the processor, or all of its time where the system does
/// not report that.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let processor_time = || {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(spent.split(' ').next()?.parse().ok()?))
    };
    let (start, before) = (Instant::now(), processor_time());
    let done = work();
    let took = processor_time().zip(before).map(|(after, before)| after - before);
    (done, took.unwrap_or_else(|| start.elapsed()))
}

fn beside(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the largest available vocabulary: many tokens make long masks.
fn tokenizer() -> Tokenizer {
    match std::fs::read(beside("../../../shared/tokenizers/llama3/tokenizer.json")) {
        Ok(json) => Tokenizer::from_json(&json).expect("it is sound"),
        Err(_) => {
            println!("no tokenizer of Llama 3 beside the repository: with that of the demo model");
            let file = ModelFile::open(&beside("../wf/assets/demo.gguf"), &OpenOptions::default());
            read_text(&file.expect("the demo model")).expect("its text").tokenizer
        }
    }
}

fn deep(open: &str, close: &str, times: usize) -> String {
    format!("{}{}", open.repeat(times), close.repeat(times))
}

fn regexes() -> Vec<GrammarSource> {
    let all = [
        "((((a{1000}){1000}){1000}){1000})".to_owned(),
        "(a*)*(a*)*(a|aa)+b{99999}".to_owned(),
        "(.*a.{500}){50}".to_owned(),
        "(a{0,1000}){0,1000}".to_owned(),
        "(.{0,100}x){0,100}".to_owned(),
        "([ab]*a[ab]{18})".to_owned(),
        "(.*a.{20})|(.*b.{21})|(.*c.{22})".to_owned(),
        r"(\p{L}{1,50} ){1,200}".to_owned(),
        r"\p{L}{1,9999}\p{N}{1,9999}\w{9999}".to_owned(),
        deep("(", ")", 4000),
        deep("(a|", ")", 60),
        "a|".repeat(30_000),
        "[a-z]+".repeat(9_000),
        "(x|y)?".repeat(9_000),
        (0..4000).map(|i| format!("{i}.*|")).collect(),
        "(?i:abcdefghij){1,5000}".to_owned(),
    ];
    all.into_iter().map(GrammarSource::Regex).collect()
}

fn grammars_in_lark() -> Vec<GrammarSource> {
    let chain: String = (0..5000).map(|i| format!("r{i}: r{}\n", i + 1)).collect();
    let doubled = |count: usize| -> String {
        (0..count).map(|i| format!("T{i}: T{} T{}\n", i + 1, i + 1)).collect()
    };
    let rules: String = (0..3000)
        .map(|i| format!("r{i}: \"a{i}\" | r{} r{}\n", (i + 1) % 3000, (i * 7) % 3000))
        .collect();
    let words: String = (0..3000).map(|i| format!("W{i}: /[a-z]+{i}[a-z]*/\n")).collect();
    let choice: String = (0..3000).map(|i| format!("W{i} | ")).collect();
    let all = [
        format!("start: {}", deep("(", ")", 30_000)),
        format!("start: r0\n{chain}r5000: \"x\""),
        format!("start: T0\n{}T3000: \"x\"", doubled(3000)),
        format!("start: T0\n{}T40: \"x\"", doubled(40)),
        format!("start: T0\n{}T20: /.*x/", doubled(20)),
        "start: (\"a\"{1,1000}){1,1000}".to_owned(),
        "start: a\na: a a | \"x\" |".to_owned(),
        "start: a a a a a a a a\na: b b | \nb: a a | \"x\" | \"y\" |".to_owned(),
        format!("start: r0\n{rules}"),
        format!("start: {choice}W0\n{words}"),
        "start: (A | B)*\nA: /[a-z]{1,300}/\nB: /[a-y]{1,301}/".to_owned(),
        "root ::= x\nx ::= x x | \"a\" | \"\"".to_owned(),
        format!("root ::= {}\"a\"{}", "(".repeat(50), ")*".repeat(50)),
        format!("root ::= {}", "[a-z]? ".repeat(9000)),
    ];
    all.into_iter().map(GrammarSource::Grammar).collect()
}

/// Intersections and complements, whose states multiply.
fn intersections() -> Vec<GrammarSource> {
    let lark = |body: &str| format!("start: T\nT: {body}");
    let patterns = |count: usize| -> Vec<Value> {
        (0..count).map(|i| json!({"pattern": format!("^.*{i}.*$")})).collect()
    };
    // Classes that share a letter: every combination of one of each part matches.
    let classes = |from: char, count: u8| -> String {
        let one = |i: u8| format!("[a{}].*{}", (from as u8 + i) as char, i % 10);
        (0..count).map(one).collect::<Vec<_>>().join("|")
    };
    let joined = |parts: &[String]| -> String {
        parts.iter().map(|part| format!("/{part}/")).collect::<Vec<_>>().join(" & ")
    };
    let shared: Vec<_> = (0..12).map(|i| format!("({}){{{}}}", classes('b', 20), 9 + i)).collect();
    let accented: Vec<_> =
        (0..4).map(|i| format!("([àá].*{i}|[àâ].*|[àã].*x|[àä].*y|[àå]|[àæ]z)*")).collect();
    let all = [
        lark(r"/(.|\n)*a(.|\n){20}/ & ~/(.|\n)*b(.|\n){21}/"),
        lark(r"/(.|\n)*a(.|\n){200}/ & ~/(.|\n)*b(.|\n){201}/ & ~/(.|\n)*c(.|\n){202}/"),
        lark(r#""x" (/(.|\n)*a(.|\n){20}/ & ~/(.|\n)*b(.|\n){21}/)"#),
        lark(r#"/x*/ (/(.|\n)*a(.|\n){20}/ & ~/(.|\n)*b(.|\n){21}/)+ "c""#),
        lark(r"~(/(.|\n)*a(.|\n){20}/ & ~(/(.|\n)*b(.|\n){21}/ & ~/(.|\n)*c(.|\n){22}/))"),
        lark(&joined(&shared)),
        lark(&joined(&shared[..2])),
        lark(&joined(&accented)),
        lark(&joined(&accented[..2])),
        lark(&joined(&(0..30).map(|i| format!(".*{i}.*")).collect::<Vec<_>>())),
        lark(&joined(&(0..8).map(|i| format!("(.*{i}.*){{{}}}", i + 3)).collect::<Vec<_>>())),
        lark(&joined(
            &(0..6).map(|i| format!("(.{{{}}})*", [7, 11, 13, 17, 19, 23][i])).collect::<Vec<_>>(),
        )),
        lark(r"/(.*a.{30})*/ & /(.*b.{31})*/ & /.{1000,2000}/"),
        format!("start: %json {}", json!({"type": "string", "allOf": patterns(30)})),
        format!("start: %json {}", json!({"type": "string", "allOf": patterns(10)})),
        format!(
            "start: %json {}",
            json!({"type": "string", "pattern": "^(.|\\n)*a(.|\\n){20}$", "minLength": 10_000})
        ),
    ];
    let formats =
        ["uri", "iri", "uri-reference", "iri-reference"].map(|name| json!({"format": name}));
    let of_schemas = [
        json!({"type": "string", "allOf": [{"pattern": classes('b', 24)}, {"pattern": classes('c', 22)}]}),
        json!({"type": "string", "allOf": (0..10).map(|i| json!({"pattern": format!("^(.{{{}}})*$", i + 2)})).collect::<Vec<_>>()}),
        json!({"type": "object", "patternProperties": {classes('b', 24): {}, classes('c', 22): {}}}),
        json!({"type": "string", "allOf": formats}),
        json!({"type": "string", "format": "uri", "allOf": [{"format": "iri-reference"}, {"pattern": "^.*a.{20}$"}]}),
    ];
    let grammars = all.into_iter().map(GrammarSource::Grammar);
    grammars.chain(of_schemas.into_iter().map(GrammarSource::JsonSchema)).collect()
}

fn schemas() -> Vec<GrammarSource> {
    let mut nested = json!({"type": "boolean"});
    for _ in 0..100 {
        nested = json!({"type": "array", "items": nested});
    }
    let named = |count: usize, each: &dyn Fn(usize) -> Value| -> Map<String, Value> {
        (0..count).map(|i| (format!("d{i}"), each(i))).collect()
    };
    let refs = named(2000, &|i| json!({"$ref": format!("#/$defs/d{}", (i + 1) % 2000)}));
    // Each refers to the next one twice, and the last ones are two patterns.
    let doubled = named(12, &|i| {
        let next = |half| match i {
            11 => json!({"type": "string", "pattern": format!("^.*{half}.*$")}),
            _ => json!({"$ref": format!("#/$defs/d{}", i + 1), "maxLength": half + 9}),
        };
        json!({"allOf": [next(0), next(1)]})
    });
    let wide = named(3000, &|_| json!({"type": "string"}));
    let both = |count: usize| -> Vec<Value> {
        (0..count).map(|i| json!({"anyOf": [{"type": "string", "minLength": i}, {"type": "object", "properties": {format!("p{i}"): {"type": "integer"}}}]})).collect()
    };
    let many: Vec<Value> = (0..300).map(|i| json!({"pattern": format!("^.*{i}.*$")})).collect();
    let some: Vec<Value> = (0..12).map(|i| json!({"pattern": format!("^.*{i}.*$")})).collect();
    let patterns: Map<_, _> =
        (0..60).map(|i| (format!("^x{i}.*$"), json!({"type": "string"}))).collect();
    let branches: Vec<Value> = (0..400).map(|i| json!({"type": "object", "properties": {"kind": {"const": i}, "v": {"type": "string", "maxLength": i}}, "required": ["kind", "v"]})).collect();
    let all = [
        nested,
        json!({"type": "array", "minItems": 1_000_000_000}),
        json!({"type": "array", "maxItems": 1_000_000_000, "items": {"type": "null"}}),
        json!({"type": "array", "minItems": 5000, "maxItems": 5000, "items": {"type": "array", "minItems": 5000, "items": {}}}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "string", "maxLength": 100_000, "pattern": "^(a|b)*$"}),
        json!({"type": "string", "allOf": many}),
        json!({"type": "string", "allOf": some}),
        json!({"$ref": "#/$defs/d0", "$defs": refs}),
        json!({"$ref": "#/$defs/d0", "$defs": doubled}),
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": wide}),
        json!({"type": "object", "properties": wide, "required": ["d2999"], "additionalProperties": false, "minProperties": 100}),
        json!({"allOf": both(10)}),
        json!({"allOf": both(16)}),
        json!({"anyOf": branches}),
        json!({"oneOf": branches}),
        json!({"type": "object", "patternProperties": patterns}),
        json!({"type": "integer", "minimum": -9_000_000_000_000_000_i64, "multipleOf": 99_999_989}),
        json!({"type": "number", "multipleOf": 0.000_123_7}),
        json!({"enum": (0..5000).map(|i| format!("value {i}")).collect::<Vec<_>>()}),
        json!({"type": "array", "prefixItems": (0..1000).map(|i| json!({"const": i})).collect::<Vec<_>>()}),
    ];
    all.into_iter().map(GrammarSource::JsonSchema).collect()
}

fn choices() -> Vec<GrammarSource> {
    let words = (0..6000).map(|i| format!("choice number {i}")).collect();
    [vec!["(".repeat(1000), "x".repeat(60_000)], vec!["x".repeat(1_000_000)], words]
        .into_iter()
        .map(GrammarSource::Choice)
        .collect()
}

/// Returns a random regular expression of some operators.
fn random_regex(random: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
    if depth == 0 {
        let leaves = ["a", "b", ".", "[ab]", "[^a]", "(.|\\n)", "[a-z]", "[àá]", "x", "\\w"];
        return leaves[random(leaves.len())].to_owned();
    }
    let mut inner = || random_regex(random, depth - 1);
    let (left, right) = (inner(), inner());
    let count = 1 + random(30);
    match random(6) {
        0 => format!("({left}|{right})"),
        1 => format!("({left})*"),
        2 => format!("({left}){{{count}}}"),
        3 => format!("(.|\\n)*{left}({right}){{{count}}}"),
        4 => format!("({left}){{0,{count}}}{right}"),
        _ => format!("{left}{right}"),
    }
}

/// Returns random intersections and complements of regular expressions.
fn random_intersections(count: usize, seed: u64) -> impl Iterator<Item = GrammarSource> {
    let mut state = seed;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    (0..count).map(move |_| {
        let parts = 2 + random(3);
        let parts: Vec<String> = (0..parts)
            .map(|_| {
                let complement = if random(2) == 0 { "~" } else { "" };
                let depth = 1 + random(3);
                format!("{complement}/{}/", random_regex(&mut random, depth))
            })
            .collect();
        let operator = [" & ", " & ", " | ", " "][random(4)];
        GrammarSource::Grammar(format!("start: T\nT: {}", parts.join(operator)))
    })
}

/// Follows a grammar for up to `max_tokens`. Returns the tokens and the longest time of one.
fn follow_for(grammar: &Grammar, vocab_len: usize, max_tokens: usize) -> (Vec<u32>, Duration) {
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    let mut sampler =
        Sampler::new(SamplingParams::default(), &limits, &[]).with_grammar(Some(grammar));
    let mut worst = Duration::ZERO;
    let tokens = (0..max_tokens).map_while(|at| {
        let mut scores: Vec<f32> = (0..vocab_len)
            .map(|token| ((token * 2_654_435_761 + at * 40_503) % 65_537) as f32)
            .collect();
        let (picked, took) = timed(|| sampler.sample(LogitsRow::All(&mut scores), at));
        worst = worst.max(took);
        picked.map(|picked| picked.token)
    });
    (tokens.collect(), worst)
}

/// Follows a grammar for up to 40 tokens. Returns their number and the longest time of one.
fn follow(grammar: &Grammar, vocab_len: usize) -> (usize, Duration) {
    let (tokens, worst) = follow_for(grammar, vocab_len, 40);
    (tokens.len(), worst)
}

/// Follows a grammar with a text that goes on as long as it may: `piece` again and again, else another token.
fn follow_endlessly(grammar: &Grammar, tokenizer: &Tokenizer, piece: &str) -> String {
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    let mut sampler =
        Sampler::new(SamplingParams::default(), &limits, &[]).with_grammar(Some(grammar));
    let pieces = tokenizer.encode(piece);
    let tokens = (0..).map_while(|at| {
        let mut scores = vec![0.0; tokenizer.len()];
        scores[pieces[at % pieces.len()] as usize] = 9.0;
        sampler.sample(LogitsRow::All(&mut scores), at).map(|picked| picked.token)
    });
    let tokens: Vec<_> = tokens.collect();
    tokenizer.decode(&tokens, false)
}

#[test]
fn strings_up_to_their_maximum_are_followed_in_every_script_and_by_every_way_in() {
    let Fixture { _alone, tokenizer, grammars } = Fixture::new();
    let text = |min: u64, max: u64| json!({"type": "string", "minLength": min, "maxLength": max});
    let lark = |schema: &Value| GrammarSource::Grammar(format!("start: %json {schema}"));
    for (piece, source) in [
        ("aa", GrammarSource::JsonSchema(text(3000, 4000))),
        ("中文", GrammarSource::JsonSchema(text(0, 4000))),
        ("жд", GrammarSource::JsonSchema(json!({"anyOf": [text(0, 4000), {"type": "null"}]}))),
        ("🙂", lark(&text(3000, 4000))),
    ] {
        let grammar = grammars.compile(&source).expect("it compiles");
        let (written, took, bytes) = measured(|| follow_endlessly(&grammar, &tokenizer, piece));
        println!("{} bytes of {piece} in {took:.1?}, {} KiB", written.len(), bytes >> 10);
        let value: String = serde_json::from_str(&written).expect("a whole string");
        assert_eq!(value.chars().count(), 4000, "{piece}");
        assert!(bytes < 2 * MAX_BYTES, "{piece}: {bytes}");
    }
}

#[test]
fn longer_bounds_of_strings_are_rejected_by_every_way_in() {
    let Fixture { _alone, grammars, .. } = Fixture::new();
    let long = json!({"type": "string", "maxLength": 6000});
    let nested = json!({"type": "object", "properties": {"a": {"type": "array", "items": long}}});
    for source in [
        GrammarSource::JsonSchema(long.clone()),
        GrammarSource::JsonSchema(nested),
        GrammarSource::Grammar(format!("start: %json {long}")),
    ] {
        let message = grammars.compile(&source).expect_err("too long").to_string();
        assert!(message.contains("maxLength: 6000: must be at most 4000"), "{message}");
    }
}

#[test]
fn long_bounded_strings_are_followed() {
    let Fixture { _alone, tokenizer, grammars } = Fixture::new();
    let schema = json!({"type": "string", "minLength": 3900, "maxLength": 4000});
    let grammar = grammars.compile(&GrammarSource::JsonSchema(schema)).expect("it compiles");
    let ((tokens, worst), took, bytes) =
        measured(|| follow_for(&grammar, tokenizer.len(), usize::MAX));
    let text = tokenizer.decode(&tokens, false);
    let value: String = serde_json::from_str(&text).expect("a whole string");
    let len = value.chars().count();
    println!(
        "{} tokens in {took:.1?}, the longest in {worst:.1?}, {} KiB",
        tokens.len(),
        bytes >> 10
    );
    assert!((3900..=4000).contains(&len), "{len}");
    assert!(worst < TOO_LONG && bytes < 2 * MAX_BYTES, "{worst:?}, {bytes} bytes");
}

#[test]
fn large_legitimate_grammars_are_accepted() {
    let Fixture { _alone, tokenizer, grammars } = Fixture::new();
    let fields = |count: usize| -> Map<String, Value> {
        (0..count).map(|i| (format!("field_{i}"), json!({"type": "string"}))).collect()
    };
    let kinds: Vec<Value> = (0..100)
        .map(|i| json!({"type": "object", "properties": {"kind": {"const": format!("k{i}")}, "v": {"type": "string"}}, "required": ["kind", "v"]}))
        .collect();
    let ids: Vec<String> = (0..1000).map(|i| format!("{i}-{}", i * 7919)).collect();
    let list = |items: Value| json!({"type": "array", "minItems": 30, "items": items});
    for schema in [
        list(json!({"type": "object", "properties": fields(256), "required": ["field_200"]})),
        list(json!({"anyOf": kinds})),
        list(json!({"enum": ids})),
        list(json!({"type": "string", "format": "date-time"})),
        list(
            json!({"type": "string", "pattern": "^[A-Za-zÀ-ÿ]+( [A-Za-zÀ-ÿ]+)*$", "maxLength": 80}),
        ),
        list(
            json!({"type": "string", "pattern": "^\\w+([.-]?\\w+)*@\\w+([.-]?\\w+)*(\\.\\w{2,})+$", "maxLength": 90}),
        ),
        list(json!({"type": "string", "format": "email", "minLength": 20, "maxLength": 90})),
    ] {
        let shown: String = schema.to_string().chars().take(60).collect();
        let grammar = grammars.compile(&GrammarSource::JsonSchema(schema));
        let (picks, worst) = follow(&grammar.expect("it compiles"), tokenizer.len());
        println!("{picks} tokens, the longest in {worst:.1?}: {shown}");
        assert_eq!(picks, 40, "{shown}");
    }
}

#[test]
fn hostile_grammars_stay_within_limits() {
    let Fixture { _alone, tokenizer, grammars } = Fixture::new();
    let mut wrong = Vec::new();
    let random: Vec<_> = random_intersections(100, 1).collect();
    let all = [intersections(), regexes(), grammars_in_lark(), schemas(), choices(), random];
    for source in all.concat() {
        let shown: String = format!("{source:?}").chars().take(70).collect();
        let (compiled, took, bytes) = measured(|| grammars.compile(&source));
        let came = compiled.as_ref().map_or_else(ToString::to_string, |_| "compiled".into());
        let came: String = came.chars().take(90).collect();
        println!("{took:>9.1?} {:>6} KiB {shown}: {came}", bytes >> 10);
        if took > TOO_LONG || bytes > MAX_BYTES {
            wrong.push(format!("{shown}: {took:?}, {bytes} bytes"));
        }
        // A grammar that compiles is followed for a while.
        let Ok(grammar) = compiled else { continue };
        let ((picked, worst), took, bytes) = measured(|| follow(&grammar, tokenizer.len()));
        println!(
            "{took:>9.1?} {:>6} KiB    {picked} tokens, the longest in {worst:.1?}",
            bytes >> 10
        );
        if worst > TOO_LONG || bytes > MAX_BYTES {
            wrong.push(format!("{shown}: a token {worst:?}, {bytes} bytes"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
