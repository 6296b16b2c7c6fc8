//! Any bytes as a `tokenizer.json`, and a text for it.

#![no_main]

use wf_text::Tokenizer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((len, rest)) = bytes.split_first() else { return };
    let Some((text, json)) = rest.split_at_checked(usize::from(*len)) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(tokenizer) = Tokenizer::from_json(json) {
        wf_fuzz::use_tokenizer(&tokenizer, text);
    }
});
