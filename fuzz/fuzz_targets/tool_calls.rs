//! Any text as the output of a model that calls tools, in any pieces.

#![no_main]

use wf_text::{ToolCallEvent, ToolCallParser, ToolFormat};

const FORMATS: [ToolFormat; 4] =
    [ToolFormat::Hermes, ToolFormat::Llama, ToolFormat::Mistral, ToolFormat::Json];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[format, step], text)) = bytes.split_first_chunk() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let is_constrained = format & 4 != 0;
    let parser = || {
        let names = ["f", "get_weather"].map(String::from).to_vec();
        let parser = ToolCallParser::new(FORMATS[usize::from(format & 3)], names);
        if is_constrained { parser.constrained() } else { parser }
    };
    let mut whole = parser();
    let mut events = whole.push(text);
    events.extend(whole.finish());
    let mut split = parser();
    let mut pieces = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(usize::from(step % 7) + 1) {
        pieces.extend(split.push(&piece.iter().collect::<String>()));
    }
    pieces.extend(split.finish());
    let (events, pieces) = (joined(events), joined(pieces));
    assert_eq!(events, pieces, "the events depend on the pieces");
    check_order(&events);
});

/// Joins adjacent parts of one text, or of the arguments of one call.
fn joined(events: Vec<ToolCallEvent>) -> Vec<ToolCallEvent> {
    let mut all: Vec<ToolCallEvent> = Vec::new();
    for event in events {
        match (all.last_mut(), &event) {
            (Some(ToolCallEvent::Text(text)), ToolCallEvent::Text(more))
            | (Some(ToolCallEvent::Arguments(text)), ToolCallEvent::Arguments(more)) => {
                text.push_str(more);
            }
            _ => all.push(event),
        }
    }
    all
}

/// Every call begins and ends, and none is inside of another.
fn check_order(events: &[ToolCallEvent]) {
    let mut is_inside = false;
    for event in events {
        let allowed = match event {
            ToolCallEvent::Text(_) | ToolCallEvent::Begin { .. } => !is_inside,
            ToolCallEvent::Arguments(_) | ToolCallEvent::End => is_inside,
        };
        assert!(allowed, "{event:?} in {events:?}");
        match event {
            ToolCallEvent::Begin { .. } => is_inside = true,
            ToolCallEvent::End => is_inside = false,
            ToolCallEvent::Text(_) | ToolCallEvent::Arguments(_) => {}
        }
    }
    assert!(!is_inside, "a call does not end: {events:?}");
}
