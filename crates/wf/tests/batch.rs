//! Tests of `wf batch`: results, errors, and what a killed process leaves.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::program::command;

fn wf(args: &[&str]) -> Command {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A batch in a directory of its own.
struct Batch(tempfile::TempDir);

impl Batch {
    fn new(lines: &[Value]) -> Self {
        let batch = Self(tempfile::tempdir().unwrap());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(batch.path("in.jsonl"), text).unwrap();
        batch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, more: &[&str]) -> Command {
        let (input, output) = (self.path("in.jsonl"), self.path("out.jsonl"));
        wf(&[&["batch", input.to_str().unwrap(), output.to_str().unwrap(), "--json"], more]
            .concat())
    }

    fn run(&self, more: &[&str]) -> (Option<i32>, Value, String) {
        let Output { status, stdout, stderr } = self.command(more).output().unwrap();
        let summary = serde_json::from_slice(&stdout).unwrap_or_default();
        (status.code(), summary, String::from_utf8(stderr).unwrap())
    }

    /// Returns the results by `custom_id`. There is at most one of each.
    fn results(&self) -> BTreeMap<String, Value> {
        let mut results = BTreeMap::new();
        for line in fs::read_to_string(self.path("out.jsonl")).unwrap_or_default().lines() {
            let result: Value = serde_json::from_str(line).unwrap();
            let id = result["custom_id"].as_str().unwrap().to_owned();
            assert!(results.insert(id, result).is_none(), "repeated: {line}");
        }
        results
    }
}

fn line(id: &str, url: &str, body: &Value) -> Value {
    json!({"custom_id": id, "method": "POST", "url": url, "body": body})
}

/// One request of each kind, and some that are wrong.
fn requests() -> Vec<Value> {
    let message = json!([{"role": "user", "content": "hello"}]);
    vec![
        line(
            "chat",
            "/v1/chat/completions",
            &json!({"messages": message, "max_tokens": 8, "seed": 1}),
        ),
        line(
            "text",
            "/v1/completions",
            &json!({"prompt": "Once upon", "max_tokens": 8, "seed": 2}),
        ),
        line("embedding", "/v1/embeddings", &json!({"input": "hello"})),
        line(
            "response",
            "/v1/responses",
            &json!({"input": "hello", "max_output_tokens": 8, "temperature": 0}),
        ),
        line("invalid", "/v1/completions", &json!({"prompt": "x", "n": 0})),
        line("stream", "/v1/completions", &json!({"prompt": "x", "stream": true})),
        line("elsewhere", "/v1/models", &json!({})),
    ]
}

/// Returns a result without ids and times, which differ between runs.
fn content(result: &Value) -> Value {
    let body = &result["response"]["body"];
    json!([
        result["response"]["status_code"],
        result["error"]["code"],
        body["choices"],
        body["data"],
        body["usage"]["completion_tokens"],
        body["error"]["message"],
        body["output"][0]["content"],
    ])
}

#[test]
fn every_request_has_a_result() {
    let batch = Batch::new(&requests());
    let (code, summary, messages) = batch.run(&[]);
    assert_eq!(code, Some(1), "{messages}");
    assert_eq!(summary, json!({"requests": 7, "earlier": 0, "succeeded": 4, "failed": 3}));
    assert!(messages.contains("3 of 7 requests failed"), "{messages}");
    let results = batch.results();
    for id in ["chat", "text", "embedding", "response"] {
        assert_eq!(results[id]["response"]["status_code"], 200, "{id}: {}", results[id]);
        assert!(results[id]["error"].is_null());
        assert!(results[id]["id"].as_str().unwrap().starts_with("batch_req_"));
    }
    assert!(results["chat"]["response"]["body"]["choices"][0]["message"]["content"].is_string());
    assert_eq!(results["invalid"]["response"]["status_code"], 400);
    assert!(
        results["invalid"]["response"]["body"]["error"]["message"].as_str().unwrap().contains('n')
    );
    assert_eq!(results["stream"]["error"]["code"], "invalid_body");
    assert_eq!(results["elsewhere"]["error"]["code"], "invalid_url");

    // Again: nothing is left to do.
    let (code, summary, _) = batch.run(&[]);
    assert_eq!(code, Some(0));
    assert_eq!(summary, json!({"requests": 7, "earlier": 7, "succeeded": 0, "failed": 0}));
    assert_eq!(batch.results(), results);
}

/// A server that is killed if a test ends early.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve() -> Server {
    let mut child = wf(&["serve", "--port", "0"]).stderr(Stdio::null()).spawn().unwrap();
    let mut greeting = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut greeting).unwrap();
    let url = greeting.trim().split(" on ").nth(1).unwrap().to_owned();
    Server(child, url)
}

#[test]
fn a_server_gives_the_same_results() {
    let (local, remote) = (Batch::new(&requests()), Batch::new(&requests()));
    local.run(&[]);
    let server = serve();
    let (code, summary, messages) = remote.run(&["--url", &server.1, "--model", "wf-demo"]);
    assert_eq!((code, &summary["succeeded"]), (Some(1), &json!(4)), "{messages}");
    let contents = |batch: &Batch| batch.results().values().map(content).collect::<Vec<_>>();
    assert_eq!(contents(&local), contents(&remote));
}

#[test]
fn a_file_that_cannot_be_used_is_an_error() {
    let batch = Batch::new(&[line("a", "/v1/completions", &json!({})), json!({"method": "POST"})]);
    let (code, _, messages) = batch.run(&[]);
    assert!(code == Some(1) && messages.contains("in.jsonl:2: custom_id is missing"), "{messages}");
    assert!(!batch.path("out.jsonl").exists());
    let batch = Batch::new(&requests());
    fs::write(batch.path("out.jsonl"), "my notes\n").unwrap();
    let (code, _, messages) = batch.run(&[]);
    assert!(code == Some(1) && messages.contains("use another file"), "{messages}");
    assert_eq!(fs::read(batch.path("out.jsonl")).unwrap(), b"my notes\n");
}

/// Kills a batch again and again, each time after one more result, until it is complete.
fn survives(requests: usize, max_kills: usize) -> usize {
    let body = |index: usize| json!({"prompt": format!("{index}"), "max_tokens": 1 + index % 5, "seed": index});
    let lines: Vec<Value> = (0..requests)
        .map(|index| line(&index.to_string(), "/v1/completions", &body(index)))
        .collect();
    let undisturbed = Batch::new(&lines);
    assert_eq!(undisturbed.run(&[]).0, Some(0));
    let batch = Batch::new(&lines);
    let mut kills = 0;
    while kills < max_kills {
        let before = fs::metadata(batch.path("out.jsonl")).map_or(0, |file| file.len());
        let mut child = batch.command(&["--concurrency", "3"]).spawn().unwrap();
        let has_more =
            || fs::metadata(batch.path("out.jsonl")).is_ok_and(|file| file.len() > before);
        while !has_more() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        // One that was faster than the signal was not killed.
        let was_killed = !child.wait().unwrap().success();
        kills += usize::from(was_killed);
        if !was_killed || batch.results_whole() == requests {
            break;
        }
    }
    let (code, summary, messages) = batch.run(&[]);
    assert_eq!((code, &summary["failed"]), (Some(0), &json!(0)), "{messages}");
    let (expected, found) = (undisturbed.results(), batch.results());
    assert_eq!(found.len(), requests, "a line is lost");
    for (id, result) in &expected {
        assert_eq!(content(result), content(&found[id]), "{id}");
        assert_eq!(result["id"], found[id]["id"]);
    }
    kills
}

impl Batch {
    /// Returns the number of complete lines of results.
    fn results_whole(&self) -> usize {
        let bytes = fs::read(self.path("out.jsonl")).unwrap_or_default();
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }
}

#[test]
fn a_killed_batch_continues_without_losing_or_repeating_a_line() {
    let kills = survives(24, 4);
    assert_eq!(kills, 4, "it was killed before it was complete");
}

#[test]
#[ignore = "takes minutes: ./check --long runs it"]
fn a_thousand_kills_lose_and_repeat_nothing() {
    let mut kills = 0;
    while kills < 1000 {
        kills += survives(200, (1000 - kills).min(50));
    }
    assert_eq!(kills, 1000);
}
