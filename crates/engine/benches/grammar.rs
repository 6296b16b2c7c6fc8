//! Cost of a grammar: compiling it, and computing the mask of each token.
//!
//! `cargo bench -p wf-engine --bench grammar`, with the tokenizer of Llama 3 if it lies beside the
//! repository, or else that of the demo model. A record of about 200 tokens is followed.

#![expect(clippy::print_stdout, reason = "what a benchmark finds, it prints")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wf_engine::{GrammarSource, Grammars, Limits, Sampler, SamplingParams, TokenId, read_text};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::LogitsRow;
use wf_text::Tokenizer;

fn main() {
    // `cargo bench -- --test` wants to see that it runs, not how fast.
    let quick = std::env::args().any(|arg| arg == "--test");
    let (tokenizer, name) = if quick { demo() } else { llama().unwrap_or_else(demo) };
    let end_tokens = [];
    let (grammars, tree) = timed(|| Grammars::new(&tokenizer, &end_tokens).expect("a tree"));
    println!("{name}: {} tokens, their tree made in {tree:.1?}", tokenizer.len());
    let record = record().to_string().replace("\":", "\": ").replace(",\"", ", \"");
    let record = record.replace("},{", "}, {");
    for (name, source, text) in [
        ("schema", GrammarSource::JsonSchema(schema()), &record),
        ("any object", GrammarSource::json_object(), &record),
        ("regex", GrammarSource::Regex("(?s:.{0,2000})".into()), &record),
    ] {
        let (grammar, compiled) = timed(|| grammars.compile(&source).expect("it compiles"));
        let tokens = tokenizer.encode(text);
        let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
        let sampler = || Sampler::new(SamplingParams::default(), &limits, &[]);
        let (mut follows, copied) = timed(|| sampler().with_grammar(Some(&grammar)));
        let masked = picks(&mut follows, &tokens, tokenizer.len());
        let free = picks(&mut sampler(), &tokens, tokenizer.len());
        println!(
            "{name}: compiled in {compiled:.1?}, copied in {copied:.1?}, {} tokens",
            tokens.len()
        );
        for (name, times) in [("with it", masked), ("free", free)] {
            let (total, most) = (times.iter().sum::<Duration>(), times.len() - 1);
            let [half, nearly, worst] = [most / 2, most * 95 / 100, most].map(|at| times[at]);
            let mean = total / times.len() as u32;
            println!(
                "  a pick {name}: mean {mean:.1?}, median {half:.1?}, 95 % {nearly:.1?}, most {worst:.1?}"
            );
        }
    }
}

/// Returns the time of sampling each token, shortest first.
fn picks(sampler: &mut Sampler, tokens: &[TokenId], vocab_len: usize) -> Vec<Duration> {
    let mut times: Vec<_> = tokens
        .iter()
        .enumerate()
        .map(|(at, &token)| {
            let mut scores = vec![0.0; vocab_len];
            scores[token as usize] = 1.0;
            let (picked, time) = timed(|| sampler.sample(LogitsRow::All(&mut scores), at));
            assert_eq!(picked.map(|picked| picked.token), Some(token), "token {at}");
            time
        })
        .collect();
    times.sort_unstable();
    times
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn record() -> Value {
    let line =
        |name: &str, count: u32, price: f64| json!({"name": name, "count": count, "price": price});
    json!({
        "id": "3f0e5a4c-9d1b-4c62-8f7a-2b6d1e9c0a57",
        "customer": {"name": "Ada Lovelace", "email": "ada@example.com", "age": 36},
        "placed": "2024-05-17",
        "lines": [
            line("a dozen apples, red and green", 2, 3.75),
            line("Käse \"aus den Bergen\"", 1, 12.5),
            line("two loaves of bread with seeds", 3, 4.2),
        ],
        "tags": ["urgent", "gift"],
        "note": "Please leave it with the neighbours on the left if nobody opens the door.",
        "paid": true,
    })
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let object = |properties: Value| {
        let names: Vec<_> = properties.as_object().expect("fields").keys().cloned().collect();
        json!({"type": "object", "properties": properties, "required": names,
               "additionalProperties": false})
    };
    let line = json!({"name": text, "count": {"type": "integer", "minimum": 1}, "price": {"type": "number"}});
    object(json!({
        "id": {"type": "string", "format": "uuid"},
        "customer": object(json!({"name": text, "email": {"type": "string", "format": "email"},
                                  "age": {"type": "integer", "minimum": 0, "maximum": 150}})),
        "placed": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": object(line), "minItems": 1},
        "tags": {"type": "array", "items": {"enum": ["urgent", "gift", "fragile"]}},
        "note": {"type": "string", "maxLength": 200},
        "paid": {"type": "boolean"},
    }))
}

fn beside(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn llama() -> Option<(Tokenizer, &'static str)> {
    let json = std::fs::read(beside("../../../shared/tokenizers/llama3/tokenizer.json")).ok()?;
    Some((Tokenizer::from_json(&json).ok()?, "Llama 3"))
}

fn demo() -> (Tokenizer, &'static str) {
    let file = ModelFile::open(&beside("../wf/assets/demo.gguf"), &OpenOptions::default());
    let text = read_text(&file.expect("the demo model")).expect("its text");
    (text.tokenizer, "the demo model")
}
