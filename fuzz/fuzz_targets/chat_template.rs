//! Any bytes as messages and a chat template.

#![no_main]

use serde_json::Value;
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, SpecialTexts};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let len = usize::from(u16::from_le_bytes(*len));
    let Some((messages, source)) = rest.split_at_checked(len) else { return };
    let (Ok(Value::Array(messages)), Ok(source)) =
        (serde_json::from_slice(messages), std::str::from_utf8(source))
    else {
        return;
    };
    let Ok(template) = ChatTemplate::new(source) else { return };
    let messages: Vec<ChatMessage> = messages.into_iter().map(message).collect();
    let specials = SpecialTexts::new(["<s>", "<|a|>"].map(String::from)).expect("two texts");
    let options =
        RenderOptions { date: Some("2024-02-29".into()), specials, ..RenderOptions::default() };
    if let Err(error) = template.render(&messages, &options) {
        assert!(error.to_string().len() < 1 << 16, "a very long error");
    }
});

fn message(json: Value) -> ChatMessage {
    let Value::Object(mut extra) = json else { return ChatMessage::default() };
    let mut take = |name: &str| match extra.shift_remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    ChatMessage { role: take("role"), content: take("content"), extra }
}
