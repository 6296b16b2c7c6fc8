//! `--thinking`, with the demo model and a template that opens thinking.

use std::path::Path;

use serde_json::Value;

use super::{command, demo_path, error, json, usage_error, wf};

const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:{{ '<think>\\n' }}";

/// Writes the demo model to a folder, with a template that thinks.
fn thinker(folder: &Path) -> String {
    let model = folder.join("thinker").display().to_string();
    let converted = wf(&["convert", demo_path().to_str().expect("UTF-8"), &model]);
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let path = Path::new(&model).join("tokenizer_config.json");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["chat_template"] = TEMPLATE.into();
    std::fs::write(&path, config.to_string()).expect("it can be written");
    model
}

fn text_and_thought(model: &str, flags: &[&str]) -> (String, String) {
    let args = ["run", model, "Tell me a story", "--json", "-n", "30", "--ignore-eos"];
    let reply = json(&[&args, flags].concat());
    let of = |name: &str| reply[name].as_str().expect("a string").to_owned();
    (of("text"), of("reasoning"))
}

#[test]
fn a_flag_turns_thinking_on_off_or_limits_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = thinker(folder.path());
    let (text, thought) = text_and_thought(&model, &[]);
    assert!(text.is_empty() && !thought.is_empty(), "the template opens thinking: {text:?}");
    assert_eq!(text_and_thought(&model, &["--thinking", "on"]), (text, thought.clone()));
    let (text, none) = text_and_thought(&model, &["--thinking", "off"]);
    assert!(!text.is_empty() && none.is_empty(), "{none:?}");
    let (limited, start) = text_and_thought(&model, &["--thinking", "5"]);
    assert!(!limited.is_empty() && thought.starts_with(&start) && start.len() < thought.len());

    // The same in a chat, as a flag and as a command.
    let chat = |flags: &[&str], lines: &[&str]| {
        let file = folder.path().join("lines");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let mut chat = command(&["chat", &model, "-n", "30", "--ignore-eos", "--no-history"]);
        chat.args(["--temperature", "0", "--repetition-penalty", "1", "--top-p", "1"]).args(flags);
        let output = chat.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(chat(&["--thinking", "off"], &["Tell me a story"]), text.trim());
    assert_eq!(chat(&[], &["/think 5", "Tell me a story"]), limited.trim());
    let unset = chat(&["--thinking", "off"], &["/think 5", "/think default", "Tell me a story"]);
    assert_eq!(unset, text.trim());
}

#[test]
fn thinking_that_is_impossible_is_an_error() {
    let no_template = "the chat template of this model does not declare it";
    for mode in ["on", "5"] {
        assert!(error(&["run", "hi", "--thinking", mode]).contains(no_template));
        let raw = error(&["run", "--raw", "hi", "--thinking", mode]);
        assert!(raw.contains("the prompt is not a conversation"), "{raw}");
    }
    let plain = json(&["run", "hi", "--json", "-n", "3"]);
    let off = json(&["run", "hi", "--json", "-n", "3", "--thinking", "off"]);
    assert_eq!(plain["ids"], off["ids"], "there is nothing to turn off");
    let message = usage_error(&["run", "hi", "--thinking", "maybe"]);
    assert!(message.contains("must be on, off, or a number of tokens"), "{message}");
}
