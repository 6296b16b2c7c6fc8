use proptest::prelude::*;

use super::*;

const FORMATS: [ToolFormat; 4] =
    [ToolFormat::Hermes, ToolFormat::Llama, ToolFormat::Mistral, ToolFormat::Json];

fn finder(format: ToolFormat) -> ToolCallParser {
    ToolCallParser::new(format, vec!["f".into(), "g".into()])
}

/// The parts of a text that comes in pieces, each as long as it can be.
fn parts<'a>(
    mut finder: ToolCallParser,
    pieces: impl IntoIterator<Item = &'a str>,
) -> Vec<ToolCallEvent> {
    let mut found: Vec<ToolCallEvent> = Vec::new();
    let mut all: Vec<_> = pieces.into_iter().flat_map(|piece| finder.push(piece)).collect();
    all.extend(finder.finish());
    for part in all {
        match (found.last_mut(), part) {
            (Some(ToolCallEvent::Text(text)), ToolCallEvent::Text(more))
            | (Some(ToolCallEvent::Arguments(text)), ToolCallEvent::Arguments(more)) => {
                text.push_str(&more)
            }
            (_, part) => found.push(part),
        }
    }
    found
}

/// Parts in short: a text is `'text'`, a call `name(arguments)`.
fn short(parts: &[ToolCallEvent]) -> String {
    let found_text = parts.iter().map(|part| match part {
        ToolCallEvent::Text(text) => format!("'{text}'"),
        ToolCallEvent::Begin { name } => format!("{name}("),
        ToolCallEvent::Arguments(text) => text.clone(),
        ToolCallEvent::End => ")".to_owned(),
    });
    found_text.collect()
}

fn found(format: ToolFormat, text: &str) -> String {
    short(&parts(finder(format), [text]))
}

#[test]
fn each_format_is_read() {
    let hermes = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    assert_eq!(found(ToolFormat::Hermes, hermes), "f({\"a\": 1})");
    let two = format!("Let me see.\n{hermes}\n{hermes}\n");
    assert_eq!(found(ToolFormat::Hermes, &two), "'Let me see.'f({\"a\": 1})f({\"a\": 1})");
    let inner = r#"<tool_call>{"name":"g","arguments":{"a":"</tool_call> }"}}</tool_call> done"#;
    assert_eq!(found(ToolFormat::Hermes, inner), "g({\"a\":\"</tool_call> }\"})' done'");
    let unclosed = r#"<tool_call>{"name": "f", "arguments": {}} and"#;
    assert_eq!(found(ToolFormat::Hermes, unclosed), "f({})' and'");

    let llama = r#"{"name": "f", "parameters": {"a": "b"}}"#;
    assert_eq!(found(ToolFormat::Llama, llama), "f({\"a\": \"b\"})");
    let several = format!("<|python_tag|>{llama}; {llama}");
    assert_eq!(found(ToolFormat::Llama, &several), "f({\"a\": \"b\"})f({\"a\": \"b\"})");

    let mistral = r#"[TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g"}]"#;
    assert_eq!(found(ToolFormat::Mistral, mistral), "f({})g({})");
    assert_eq!(found(ToolFormat::Mistral, &mistral[12..]), "f({})g({})");
    assert_eq!(found(ToolFormat::Json, r#" {"name": "g", "arguments": {}} "#), "g({})");
}

#[test]
fn what_is_no_call_is_text() {
    for text in [
        "a < b, and <tool_cal",
        "<tool_call>\nnot JSON\n</tool_call>",
        "see\n <tool_call>{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ",
        "<tool_call>{\"name\": \"f\", \"arguments\": 7}</tool_call>",
        "{\"city\": \"Paris\"}",
        "{\"name\": \"Ann\", \"age\": 7}",
        "[1, 2]",
        "  \n",
        "[TOOL_CALLS] none",
        "<|python_tag|>print(1)",
        "",
    ] {
        for format in FORMATS {
            let expected = if text.is_empty() { String::new() } else { format!("'{text}'") };
            assert_eq!(found(format, text), expected, "{format:?}");
        }
    }
    let later = "It is {\"name\": \"f\", \"arguments\": {}}";
    assert_eq!(found(ToolFormat::Llama, later), format!("'{later}'"));
}

#[test]
fn ordinary_text_is_not_held_back() {
    let mut finder = finder(ToolFormat::Hermes);
    assert_eq!(finder.push("Hello <b"), [ToolCallEvent::Text("Hello <b".into())]);
    assert_eq!(finder.push(" <"), []);
    assert_eq!(finder.push("tool_"), []);
    assert_eq!(finder.push("box>"), [ToolCallEvent::Text(" <tool_box>".into())]);
    let mut finder = self::finder(ToolFormat::Hermes);
    assert_eq!(finder.push("{\"city\""), [ToolCallEvent::Text("{\"city\"".into())]);
}

#[test]
fn certain_calls_are_told_as_they_come() {
    let begin = || ToolCallEvent::Begin { name: "f".into() };
    let arguments = |text: &str| ToolCallEvent::Arguments(text.into());
    let mut finder = finder(ToolFormat::Hermes).constrained();
    assert_eq!(finder.push("<tool_call>\n{\"name\": \"f\", \"arg"), []);
    assert_eq!(finder.push("uments\": {\"a"), [begin(), arguments("{\"a")]);
    assert_eq!(finder.push("\": {}"), [arguments("\": {}")]);
    assert_eq!(finder.push(", \"b\": 1}}\n</"), [arguments(", \"b\": 1}"), ToolCallEvent::End]);
    assert_eq!(finder.push("tool_call>"), []);
    assert_eq!(finder.finish(), []);

    let cut =
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"a";
    let list = parts(self::finder(ToolFormat::Mistral).constrained(), [cut]);
    assert_eq!(short(&list), "f({})g({\"a)");
    let bare = "{\"name\": \"f\", \"arguments\": {}}";
    let text = parts(self::finder(ToolFormat::Hermes).constrained(), [bare]);
    assert_eq!(short(&text), format!("'{bare}'"), "JSON that was requested is text");
}

/// Texts that are nearly calls.
fn tricky() -> impl Strategy<Value = String> {
    let pieces = [
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"g\", \"parameters\": {}}",
        "{\"name\": \"x\", \"arguments\": {}}",
        "{\"name\": ",
        "\"f\"",
        ", \"arguments\": ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ";",
        "\"",
        "\\",
        "\n",
        " ",
        "é😀",
        "text",
        "<",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12)
        .prop_map(|pieces| pieces.concat())
}

/// A text cut at places.
fn cut<'a>(text: &'a str, places: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut at: Vec<usize> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    at.retain(|&at| text.is_char_boundary(at));
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![3 => tricky(), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_cut_gives_the_same(
        text in any_text(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        format in prop::sample::select(FORMATS.to_vec()),
        certain in any::<bool>(),
    ) {
        let new = || if certain { finder(format).constrained() } else { finder(format) };
        let whole = parts(new(), [text.as_str()]);
        prop_assert_eq!(&parts(new(), cut(&text, &places)), &whole);
        let chars: Vec<String> = text.chars().map(String::from).collect();
        prop_assert_eq!(&parts(new(), chars.iter().map(String::as_str)), &whole);
    }

    #[test]
    fn nothing_is_lost(text in any_text(), format in prop::sample::select(FORMATS.to_vec())) {
        let found = parts(finder(format), [text.as_str()]);
        if let [ToolCallEvent::Text(found_text)] = &found[..] {
            prop_assert_eq!(found_text, &text);
        }
        // Every part stands in the text, in its order.
        let mut rest = text.as_str();
        for part in &found {
            let (ToolCallEvent::Text(found_text) | ToolCallEvent::Arguments(found_text)) = part else { continue };
            // Arguments that were absent, or stood in a string, are written anew. Absent ones become `{}`, which
            // may stand further on by chance.
            if let ToolCallEvent::Arguments(json) = part
                && (json == "{}" || !rest.contains(json.as_str()))
            {
                continue;
            }
            let at = rest.find(found_text.as_str());
            prop_assert!(at.is_some(), "{:?} in {:?}", found_text, rest);
            rest = &rest[at.unwrap_or(0) + found_text.len()..];
        }
        let calls = found.iter().filter(|part| matches!(part, ToolCallEvent::Begin { .. })).count();
        let ends = found.iter().filter(|part| matches!(part, ToolCallEvent::End)).count();
        prop_assert_eq!(calls, ends);
        if calls == 0 && !text.is_empty() {
            prop_assert_eq!(found, vec![ToolCallEvent::Text(text)]);
        }
    }
}

#[test]
fn names_may_precede_the_arguments() {
    let read = |text: &str| found(ToolFormat::Mistral, text);
    assert_eq!(read(r#"[TOOL_CALLS]f[ARGS]{"a": 1}"#), "f({\"a\": 1})");
    let two = r#"Well. [TOOL_CALLS]f[CALL_ID]x1[ARGS]{} [TOOL_CALLS]g[ARGS]{"a": "[ARGS]}"} done"#;
    assert_eq!(read(two), "'Well.'f({})g({\"a\": \"[ARGS]}\"})' done'");
    assert_eq!(read("[TOOL_CALLS]x[ARGS]{}"), "'[TOOL_CALLS]x[ARGS]{}'");
    assert_eq!(read("[TOOL_CALLS]f[ARGS] no"), "'[TOOL_CALLS]f[ARGS] no'");
    assert_eq!(read("[TOOL_CALLS]f[ARGS]{\"a\""), "'[TOOL_CALLS]f[ARGS]{\"a\"'");
    for text in [two, "[TOOL_CALLS]x[ARGS]{}", "[TOOL_CALLS]f[ARGS] no"] {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters = parts(finder(ToolFormat::Mistral), letters.iter().map(String::as_str));
        assert_eq!(short(&letters), read(text));
    }
}

#[test]
fn functions_may_be_written_with_tags() {
    let call = "<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx < y\n</parameter>\n</function>";
    let wrapped = format!("So:\n<tool_call>\n{call}\n</tool_call>\n<tool_call>{call}</tool_call>");
    let one = r#"f({"a":1,"b":"x < y"})"#;
    assert_eq!(found(ToolFormat::Hermes, &wrapped), format!("'So:'{one}{one}"));
    assert_eq!(
        found(ToolFormat::Hermes, &format!("So: {call} done")),
        format!("'So:'{one}' done'")
    );
    let unknown = "<tool_call><function=x></function></tool_call>";
    assert_eq!(found(ToolFormat::Hermes, unknown), format!("'{unknown}'"));
    let cut = "<tool_call><function=f><parameter=a>1";
    assert_eq!(found(ToolFormat::Hermes, cut), format!("'{cut}'"));
    for text in [wrapped.as_str(), unknown, cut] {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters = parts(finder(ToolFormat::Hermes), letters.iter().map(String::as_str));
        assert_eq!(short(&letters), found(ToolFormat::Hermes, text));
    }
    let texts = finder(ToolFormat::Hermes).with_text_parameters(vec![vec!["a".into()]]);
    let read = parts(texts, ["<function=f><parameter=a>1</parameter></function>"]);
    assert_eq!(short(&read), r#"f({"a":"1"})"#);
}
