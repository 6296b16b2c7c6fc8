//! Any bytes as a JSON schema, a regular expression or a grammar.

#![no_main]

use std::sync::OnceLock;

use wf_engine::{GrammarSource, Grammars, Limits, Sampler, SamplingParams};
use wf_model::LogitsRow;

/// Number of tokens that follow a grammar.
const MAX_TOKENS: usize = 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let source = match kind % 4 {
        0 => match serde_json::from_str(text) {
            Ok(schema) => GrammarSource::JsonSchema(schema),
            Err(_) => return,
        },
        1 => GrammarSource::Regex(text.to_owned()),
        2 => GrammarSource::Grammar(text.to_owned()),
        _ => GrammarSource::Choice(text.lines().map(str::to_owned).collect()),
    };
    let grammar = match grammars().compile(&source) {
        Ok(grammar) => grammar,
        Err(error) => return assert!(error.to_string().len() < 1 << 16, "a very long error"),
    };
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    let mut sampler =
        Sampler::new(SamplingParams::default(), &limits, &[]).with_grammar(Some(&grammar));
    let vocab_len = wf_fuzz::demo_tokenizer().len();
    for at in 0..MAX_TOKENS {
        let score = |token: usize| ((token * 2_654_435_761 + at * 40_503) % 65_537) as f32;
        let mut scores: Vec<f32> = (0..vocab_len).map(score).collect();
        if sampler.sample(LogitsRow::All(&mut scores), at).is_none() {
            return;
        }
    }
});

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| Grammars::new(wf_fuzz::demo_tokenizer(), &[]).expect("a tree"))
}
