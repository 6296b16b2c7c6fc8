//! Ten times the text takes about ten times as long, on a small stack.
//!
//! Quadratic work would take a hundred times as long, so the bound of forty is far from both, and a busy machine does
//! not decide the test.
use std::time::{Duration, Instant};

use wf_text::Tokenizer;

use crate::common;

const UNITS: &[&str] =
    &["a", " ", "\n", "\t ", "!", "1", "漢", "é", "\u{301}", "'s", "😀", "ab", " a", "<|"];

fn vocabularies() -> Vec<(&'static str, Vec<u8>)> {
    let mut nfc = common::byte_level_json(common::split_then_bytes(common::QWEN2));
    nfc["normalizer"] = serde_json::json!({"type": "NFC"});
    let gpt2 = common::byte_level_json(common::gpt2_bytes(true));
    let mut all = vec![
        ("gpt2", gpt2.to_string().into_bytes()),
        ("qwen2 with NFC", nfc.to_string().into_bytes()),
        ("sentencepiece", common::sentence_piece_json().to_string().into_bytes()),
    ];
    for path in ["models/demo/tokenizer.json", "tokenizers/llama3/tokenizer.json"] {
        all.extend(common::shared(path).map(|bytes| (path, bytes)));
    }
    all
}

/// Returns the CPU time of this thread where the system reports it (Linux does), else the wall-clock time.
fn processor_time(since: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// Returns the CPU time of encoding `text` that many times.
fn time(tokenizer: &Tokenizer, text: &str, times: u32) -> Duration {
    let since = Instant::now();
    let before = processor_time(since);
    for _ in 0..times {
        assert!(!tokenizer.encode(text).is_empty());
    }
    processor_time(since) - before
}

fn check(name: &str, tokenizer: &Tokenizer, unit: &str) {
    let tenth = unit.repeat((100 << 10) / unit.len());
    let whole = unit.repeat((1 << 20) / unit.len());
    let mut seen = String::new();
    // CPU time is counted in ticks, so both sides run for many of them, and the second attempt runs longer.
    for times in [1, 12] {
        let short = time(tokenizer, &tenth, 10 * times) / (10 * times);
        let long = time(tokenizer, &whole, times) / times;
        let ratio = long.as_secs_f64() / short.as_secs_f64();
        seen = format!("{name} {unit:?}: {short:?} and {long:?}, ratio {ratio:.1}");
        if ratio <= 40.0 {
            return;
        }
    }
    panic!("{seen}");
}

#[test]
fn a_megabyte_of_anything_is_ten_times_a_tenth_of_it() {
    for (name, json) in vocabularies() {
        let tokenizer = Tokenizer::from_json(&json).unwrap();
        std::thread::scope(|scope| {
            let small_stack = std::thread::Builder::new().stack_size(512 << 10);
            let run = || UNITS.iter().for_each(|unit| check(name, &tokenizer, unit));
            small_stack.spawn_scoped(scope, run).unwrap().join().unwrap();
        });
    }
}
