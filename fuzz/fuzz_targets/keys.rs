//! Any text as a file of API keys.

#![no_main]

use wf_server::Key;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for line in text.lines() {
        let (key, options) = Key::split(line);
        let option_len: usize = options.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(key.len() + option_len <= line.len(), "something is added: {line:?}");
        match Key::parse(line) {
            Ok(parsed) => {
                assert!((1..=64).contains(&parsed.name.len()), "{:?}", parsed.name);
                assert!(parsed.limits.kv_share.is_none_or(|share| share > 0.0 && share <= 1.0));
            }
            // A message names an option and its value, and nothing else of the line.
            Err(message) => assert!(!message.is_empty() && !message.chars().any(char::is_control)),
        }
    }
});
