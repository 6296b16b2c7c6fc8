//! Any lists as the vocabulary of a GGUF file, and a text for it.

#![no_main]

use serde_json::Value;
use wf_text::{Tokenizer, Vocabulary};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return };
    let text = |name: &str| json[name].as_str().map(String::from);
    let items = |name: &str| json[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = |name: &str| items(name).iter().filter_map(Value::as_str).map(String::from);
    let number = |name: &str| json[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let vocab = Vocabulary {
        model: text("model").unwrap_or_default(),
        pre: text("pre"),
        tokens: texts("tokens").collect(),
        token_types: items("token_types")
            .iter()
            .map(|kind| kind.as_i64().unwrap_or(0) as i32)
            .collect(),
        merges: texts("merges").collect(),
        scores: items("scores")
            .iter()
            .map(|score| score.as_f64().unwrap_or(f64::NAN) as f32)
            .collect(),
        bos: number("bos"),
        eos: number("eos"),
        eot: number("eot"),
        add_bos: json["add_bos"].as_bool(),
        add_eos: json["add_eos"].as_bool(),
        add_space_prefix: json["add_space_prefix"].as_bool(),
    };
    if let Ok(tokenizer) = Tokenizer::from_gguf(vocab) {
        wf_fuzz::use_tokenizer(&tokenizer, &text("text").unwrap_or_default());
    }
});
