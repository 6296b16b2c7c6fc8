//! Tests of chats in scripts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use super::chat;
use super::scripted::{answer, scripted};

use crate::program::command;

fn run(command: &mut Command, lines: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the output of a script that must succeed.
fn script(flags: &[&str], lines: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut chat(folder.path(), flags), lines);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a script has no history");
    text(&output.stdout)
}

/// Returns the response of `wf run`.
fn run_prompt(prompt: &str) -> String {
    let output = command(&["run", prompt, "-n", "24"]).output();
    text(&output.unwrap().stdout)
}

#[test]
fn a_script_gets_only_the_responses() {
    let greedy = ["-n", "24", "--temperature", "0", "--repetition-penalty", "1"];
    let answer = script(&greedy, "hello\n");
    assert_eq!(answer, run_prompt("hello"));
    assert!(answer.ends_with('\n') && !answer.contains('\x1b'), "{answer:?}");
}

#[test]
fn a_chat_samples_as_the_model_recommends() {
    let settings = script(&[], "/set\n");
    let has = |name: &str, value: &str| {
        settings.lines().any(|line| line.split_whitespace().eq([name, value]))
    };
    for (name, value) in [("temperature", "0.4"), ("top-p", "0.9"), ("repetition-penalty", "1.05")]
    {
        assert!(has(name, value), "{name} is {value}: {settings}");
    }
    assert!(script(&["--temperature", "0.7"], "/set\n").contains("0.7"), "a flag is stronger");
}

#[test]
fn lines_are_turns_of_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("said.json");
    let lines = format!(
        "/system Be kind.\nhello\n\"\"\"\nTell me\na story\n\"\"\"\n/set temperature 0.5\n/save {}\n",
        file.display()
    );
    let answers = script(&["-n", "24"], &lines);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let said = saved["messages"].as_array().unwrap();
    let roles: Vec<_> = said.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(said[3]["content"], "Tell me\na story");
    for message in [&said[2], &said[4]] {
        assert!(answers.contains(message["content"].as_str().unwrap()), "{answers}");
    }
    assert_eq!(saved["settings"], serde_json::json!({"max_tokens": 24, "temperature": 0.5}));
    // The loaded conversation has all turns and settings.
    let whole =
        script(&["-n", "24"], &format!("/load {}\n/set\n/undo\n/undo\n/stats\n", file.display()));
    assert!(whole.contains("temperature") && whole.contains("0.5"), "{whole}");
    assert!(whole.contains("there are no responses yet"), "{whole}");

    // At the start, flags override the file.
    let flags = ["--load", file.to_str().unwrap(), "--temperature", "0.25", "--system", "Hum."];
    let shown = script(&flags, "/set\n/system\n");
    assert!(shown.contains("0.25") && shown.contains("24\n"), "{shown}");
    assert!(shown.ends_with("Hum.\n"), "{shown}");
}

#[test]
fn the_first_error_ends_a_script() {
    let folder = tempfile::tempdir().unwrap();
    for (lines, words) in [
        ("/set temprature 1\nhello\n", "did you mean temperature?"),
        ("/load none.json\n", "none.json"),
        ("/regen\n", "there are no messages yet"),
        ("/undo\n", "there are no messages yet"),
        ("/frobnicate\n", "/help lists all commands"),
    ] {
        let output = run(&mut chat(folder.path(), &[]), lines);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{lines}: {message}");
        assert!(message.starts_with("error: ") && message.contains(words), "{lines}: {message}");
        assert_eq!(text(&output.stdout), "", "{lines}");
    }
}

#[test]
fn a_full_context_is_an_error_with_remedies() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}\n", "word ".repeat(80));
    let output = run(&mut chat(folder.path(), &["--context", "64"]), &long);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for words in ["the context is full", "the limit is 64", "/undo", "/new", "--attention window"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn a_window_lets_a_chat_go_on_past_the_context() {
    let folder = tempfile::tempdir().unwrap();
    let lines = format!("{}/stats\n", "Tell me a story about a dog.\n".repeat(6));
    let flags = ["--context", "128", "--attention", "window=64,sinks=4", "-n", "60", "--seed", "1"];
    let output = run(&mut chat(folder.path(), &flags), &lines);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let context = shown.lines().find(|line| line.starts_with("  context")).expect("statistics");
    let used = context.split_whitespace().nth(1).and_then(|count| count.parse::<usize>().ok());
    assert!(used.is_some_and(|used| used > 2 * 128), "{context}");
    let out = format!("{} out of sight", used.unwrap_or_default() + 1 - 68);
    assert!(context.contains("of 1048576 tokens") && context.ends_with(&out), "{context}");

    let refused = run(&mut chat(folder.path(), &["--attention", "window=64,sinks=x"]), "hello\n");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("sinks is \"x\": must be a number from 0 to 1024"));
    let alone = run(&mut chat(folder.path(), &["--cache-size", "1G"]), "hello\n");
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--cache-dir <DIR>"), "{}", text(&alone.stderr));
}

/// A server that is stopped at the end of the test.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(flags: &[&str]) -> Server {
    let mut command = command(&["serve", "--port", "0"]);
    command.args(flags).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().rsplit(" on ").next().unwrap().to_owned();
    Server(child, url)
}

#[test]
fn a_server_responds_like_a_local_model() {
    let server = serve(&["--api-key", "open sesame"]);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "# ours\nopen sesame\n").unwrap();
    let greedy = ["--temperature", "0", "-n", "24"];
    let with_v1 = format!("{}/v1/", server.1);
    let lines = "hello\nTell me a story\n";
    let local = script(&greedy, lines);
    for (url, flags) in [
        (&server.1, &["--api-key-file", key.to_str().unwrap()][..]),
        (&with_v1, &["--api-key", "open sesame", "wf-demo"]),
    ] {
        let flags = [&["--url", url], flags, &greedy[..]].concat();
        assert_eq!(script(&flags, lines), local, "{flags:?}");
    }
    let mut by_variable = chat(folder.path(), &[&["--url", &server.1], &greedy[..]].concat());
    let output = run(by_variable.env("OPENAI_API_KEY", "open sesame"), "hello\n/stats\n");
    let said = text(&output.stdout);
    assert!(said.contains(" cached,") && said.contains("of 2048 tokens"), "{said}");

    // A flag overrides a variable it conflicts with.
    let flags = [&["--url", &server.1, "--api-key", "open sesame"], &greedy[..]].concat();
    let output = run(chat(folder.path(), &flags).env("WF_MODEL", "/nowhere"), lines);
    assert_eq!(text(&output.stdout), local, "{}", text(&output.stderr));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
    let flags = [&[model], &greedy[..]].concat();
    let output = run(chat(folder.path(), &flags).env("WF_URL", "http://[::]:1"), lines);
    assert_eq!(text(&output.stdout), local, "{}", text(&output.stderr));

    let output = run(&mut chat(folder.path(), &["--url", &server.1]), "hello\n");
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("401"), "{message}");
}

#[test]
fn minimal_servers_are_supported_and_get_only_chosen_settings() {
    let models = answer("application/json", r#"{"data": [{"id": "tiny"}]}"#);
    let bare = answer(
        "text/event-stream",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"Hi \"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"there\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let broken =
        answer("text/event-stream", "data: {\"error\":{\"message\":\"out of cheese\"}}\n\n");
    let (url, asked) = scripted(vec![models, bare, broken]);
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--url", &url, "--top-k", "3"];
    let output = run(&mut chat(folder.path(), &flags), "hello\n/stats\nmore\n");
    let (said, message) = (text(&output.stdout), text(&output.stderr));
    assert!(said.starts_with("Hi there\n") && said.contains("2 tokens"), "{said}");
    assert!(output.status.code() == Some(1) && message.contains("out of cheese"), "{message}");
    let asked = asked.join().unwrap();
    let body: Value = serde_json::from_str(asked[1].split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"model": "tiny", "top_k": 3, "stream": true,
            "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hello"}]})
    );
}

#[test]
fn a_servers_thinking_is_no_response_and_its_own_times_count() {
    let models = answer("application/json", r#"{"data": [{"id": "tiny"}]}"#);
    let thoughtful = answer(
        "text/event-stream",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm. \",\"reasoning\":\"Hm. \"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"reasoning\":\"Well.\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\
         \"timings\":{\"queue_ms\":1,\"cache_n\":0,\"prompt_n\":50,\"prompt_ms\":500,\"prompt_per_second\":100,\
         \"predicted_n\":21,\"predicted_ms\":2000,\"predicted_per_second\":10}}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":21,\"total_tokens\":71}}\n\n\
         data: [DONE]\n\n",
    );
    let plain = answer(
        "text/event-stream",
        "data: {\"choices\":[{\"delta\":{\"content\":\"Bye\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let (url, asked) = scripted(vec![models, thoughtful, plain]);
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut chat(folder.path(), &["--url", &url]), "hello\n/stats\nbye\n");
    let said = text(&output.stdout);
    assert!(said.starts_with("Hi\n") && said.ends_with("Bye\n"), "{said}");
    assert!(said.contains("50 tokens, 100.0 tok/s"), "{said}");
    assert!(said.contains("21 tokens, 10.0 tok/s"), "{said}");
    let asked = asked.join().unwrap();
    assert!(!asked[2].contains("Hm"), "thinking is not sent back: {}", asked[2]);
}

#[test]
fn a_server_gets_thinking_as_its_api_has_it() {
    let models = answer("application/json", r#"{"data": [{"id": "tiny"}]}"#);
    let said = answer(
        "text/event-stream",
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let (url, asked) = scripted(vec![models, said.clone(), said.clone(), said]);
    let folder = tempfile::tempdir().unwrap();
    let lines = "one\n/think off\ntwo\n/think 64\nthree\n";
    let output = run(&mut chat(folder.path(), &["--url", &url, "--thinking", "on"]), lines);
    assert_eq!(text(&output.stdout), "Hi\nHi\nHi\n");
    let asked = asked.join().unwrap();
    for (request, expected) in asked[1..].iter().zip([
        json!({"type": "enabled"}),
        json!({"type": "disabled"}),
        json!({"type": "enabled", "budget_tokens": 64}),
    ]) {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["thinking"], expected, "{request}");
    }
}
