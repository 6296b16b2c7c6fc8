//! Tests of interactive chats.

use std::path::Path;

use super::chat;
use super::pty::Terminal;
use super::scripted::{answer, scripted};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

fn start(folder: &Path, flags: &[&str]) -> Terminal {
    let mut terminal = Terminal::start(&chat(folder, flags));
    let greeting = terminal.prompt();
    assert!(greeting.contains("wf-demo") && greeting.contains("/help"), "{greeting}");
    terminal
}

/// Types a line and waits for the next prompt. Returns the output between.
fn say(terminal: &mut Terminal, line: &str) -> String {
    terminal.line(line);
    // The echo of the line, then whatever it brings.
    terminal.wait("\x1b[?2004l");
    terminal.prompt()
}

#[test]
fn a_whole_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    let mut terminal = start(folder.path(), &["-n", "24", "--temperature", "0"]);
    assert!(terminal.screen.contains("\x1b[2m"), "notes have a colour: {:?}", terminal.screen);

    let first = say(&mut terminal, "hello");
    assert!(first.chars().any(char::is_alphabetic), "{first:?}");
    let stats = say(&mut terminal, "/stats");
    for words in ["prompt", "response", "tok/s", "cached", "of 2048 tokens", "1 turn"] {
        assert!(stats.contains(words), "{words}: {stats}");
    }
    let same = say(&mut terminal, "/regen");
    assert!(same.contains("/set temperature"), "greedy sampling: {same:?}");
    let words = first.trim().lines().next().unwrap().trim();
    assert!(same.contains(words), "{words:?} in {same:?}");

    let wrong = say(&mut terminal, "/set temprature 0.9");
    assert!(wrong.contains("did you mean temperature?"), "{wrong:?}");
    assert!(wrong.contains("top-k") && wrong.contains("max-tokens"), "{wrong:?}");
    say(&mut terminal, "/set temperature 0.9");
    say(&mut terminal, "/set seed 7");
    assert!(say(&mut terminal, "/set").contains("0.9"));

    let saved = say(&mut terminal, &format!("/save {}", file.display()));
    assert!(saved.contains("saved to"), "{saved:?}");
    assert!(say(&mut terminal, "/undo").contains("removed: hello"));
    assert!(say(&mut terminal, "/undo").contains("there are no messages yet"));
    say(&mut terminal, "/set temperature default");
    let loaded = say(&mut terminal, &format!("/load {}", file.display()));
    assert!(loaded.contains("loaded 1 turn from"), "{loaded:?}");
    assert!(say(&mut terminal, "/set").contains("0.9"), "settings come with it");
    assert!(say(&mut terminal, "/load nowhere.json").contains("nowhere.json"));

    terminal.line("/quit");
    assert!(terminal.end().success());
    let history = folder.path().join("wrinklefree/chat-history");
    let history = std::fs::read_to_string(history).unwrap();
    assert!(history.contains("hello") && history.contains("/quit"), "{history}");
}

#[test]
fn a_chat_says_once_that_its_beginning_is_out_of_sight() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--context", "128", "--attention", "window=64,sinks=4", "-n", "40", "--seed", "1"];
    let mut terminal = start(folder.path(), &flags);
    assert!(terminal.screen.contains("attention window=64,sinks=4"), "{}", terminal.screen);
    let told: Vec<_> = (0..5)
        .map(|_| say(&mut terminal, "Tell me a story").contains("out of sight of the model"))
        .collect();
    assert_eq!(told.iter().filter(|told| **told).count(), 1, "{told:?}");
    assert!(!told[0], "the first turn is in sight: {told:?}");
    say(&mut terminal, "/new");
    assert!(!say(&mut terminal, "hello").contains("out of sight"), "it starts over");
    terminal.line("/quit");
    assert!(terminal.end().success());
}

#[test]
fn an_interrupt_stops_the_response_only() {
    let folder = tempfile::tempdir().unwrap();
    // A response up to the end of the context.
    let flags = ["-n", "2000", "--ignore-eos", "--threads", "1"];
    let mut terminal = start(folder.path(), &flags);
    terminal.line("Tell me a story");
    terminal.wait("Once");
    terminal.keys(CTRL_C);
    let rest = terminal.prompt();
    assert!(rest.contains("stopped"), "{rest:?}");
    let file = folder.path().join("cut.json");
    say(&mut terminal, &format!("/save {}", file.display()));
    let saved = std::fs::read_to_string(&file).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let kept = saved["messages"][1]["content"].as_str().unwrap();
    assert!(kept.contains("Once"), "what was written stays: {kept:?}");
    // The chat continues.
    say(&mut terminal, "/undo");
    say(&mut terminal, "/set max-tokens 8");
    let cut = say(&mut terminal, "hello");
    assert!(cut.contains("/set max-tokens N allows longer responses"), "{cut:?}");

    terminal.keys(CTRL_C);
    let hint = terminal.prompt();
    assert!(hint.contains("press Ctrl-C again to quit"), "{hint:?}");
    terminal.keys(CTRL_C);
    assert!(terminal.end().success());
}

#[test]
fn messages_with_several_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    let mut terminal = start(folder.path(), &["-n", "4", "--no-history"]);
    terminal.line("one\\");
    say(&mut terminal, "two");
    terminal.line("\"\"\"");
    terminal.line("/three");
    terminal.line("four");
    say(&mut terminal, "\"\"\"");
    // Alt-Enter.
    terminal.keys("five\x1b\r");
    say(&mut terminal, "six");
    say(&mut terminal, &format!("/save {}", file.display()));
    let saved = std::fs::read_to_string(&file).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let asked: Vec<_> = (0..6).step_by(2).map(|turn| &saved["messages"][turn]["content"]).collect();
    assert_eq!(asked, ["one\ntwo", "/three\nfour", "five\nsix"]);
    terminal.keys(CTRL_D);
    assert!(terminal.end().success());
    assert!(!folder.path().join("wrinklefree").exists(), "no history was wanted");
}

#[test]
fn colours_can_be_disabled() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = chat(folder.path(), &["-n", "4"]);
        command.env(name, value);
        let mut terminal = Terminal::start(&command);
        terminal.wait("> ");
        terminal.line("/stats");
        terminal.wait("there are no responses yet");
        terminal.wait("> ");
        terminal.keys(CTRL_D);
        assert!(terminal.end().success());
        let is_colour = |at: usize| {
            terminal.screen[at..].starts_with("\x1b[") && {
                let rest = &terminal.screen[at + 2..];
                rest.find(|c: char| c.is_alphabetic())
                    .is_some_and(|end| rest[end..].starts_with('m'))
            }
        };
        let screen = &terminal.screen;
        assert!(!screen.match_indices('\x1b').any(|(at, _)| is_colour(at)), "{screen:?}");
    }
}

#[test]
fn responses_cannot_control_the_terminal() {
    let models = answer("application/json", r#"{"data": [{"id": "evil\u001b[2J"}]}"#);
    let hostile = answer(
        "text/event-stream",
        "data: {\"choices\":[{\"delta\":{\"content\":\"A\\u001b]0;mine\\u0007B\\u009b2J\\rC\"}}]}\n\n\
         data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let (url, asked) = scripted(vec![models, hostile]);
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(&chat(folder.path(), &["--url", &url]));
    assert!(terminal.prompt().contains("evil␛[2J"));
    let answer = say(&mut terminal, "hello");
    assert!(answer.contains("A␛]0;mine␇B\u{fffd}2JC"), "{answer:?}");
    asked.join().unwrap();
    terminal.keys(CTRL_D);
    assert!(terminal.end().success());
}
