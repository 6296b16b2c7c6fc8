//! Any text as the output of a model that thinks, in any pieces.

#![no_main]

use wf_text::{CLOSE_TAG, ThinkingStart, Thought, ThoughtSplitter};

const STARTS: [ThinkingStart; 3] =
    [ThinkingStart::Open, ThinkingStart::MayOpen, ThinkingStart::Answer];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[start, step], text)) = bytes.split_first_chunk() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let start = STARTS[usize::from(start) % STARTS.len()];
    let whole = split(start, [text]);
    let chars: Vec<char> = text.chars().collect();
    let pieces = chars.chunks(usize::from(step % 7) + 1).map(|piece| piece.iter().collect());
    let pieces: Vec<String> = pieces.collect();
    let in_pieces = split(start, pieces.iter().map(String::as_str));
    assert_eq!(whole, in_pieces, "the parts depend on the pieces");
    check(start, text, &whole);
});

fn split<'a>(start: ThinkingStart, pieces: impl IntoIterator<Item = &'a str>) -> Thought {
    let mut splitter = ThoughtSplitter::new(start);
    let mut all = Thought::default();
    let mut add = |thought: Thought| {
        all.reasoning.push_str(&thought.reasoning);
        all.answer.push_str(&thought.answer);
    };
    for piece in pieces {
        add(splitter.push(piece));
    }
    add(splitter.finish());
    all
}

/// Nothing is lost but white space and tags, and nothing is added.
fn check(start: ThinkingStart, text: &str, Thought { reasoning, answer }: &Thought) {
    assert!(!reasoning.contains(CLOSE_TAG), "a tag in the thinking: {reasoning:?}");
    assert!(text.ends_with(answer.as_str()), "the answer is no end of the text: {answer:?}");
    assert!(
        text.contains(reasoning.as_str()),
        "the thinking is no part of the text: {reasoning:?}"
    );
    if start == ThinkingStart::Answer {
        assert_eq!((reasoning.as_str(), answer.as_str()), ("", text));
    }
}
