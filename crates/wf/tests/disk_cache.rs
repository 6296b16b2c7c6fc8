//! Tests of `--cache-dir`: restarts, callers, and what killed processes leave.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::program::command;

fn wf(args: &[&str]) -> Command {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that is killed, not stopped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(dir: &Path) -> Self {
        let dir = dir.to_str().unwrap();
        let args = ["serve", "--port", "0", "--api-key", "alice,bob", "--cache-dir", dir];
        let mut child = wf(&args).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("/docs") {
            assert!(out.read_line(&mut greeting).unwrap() > 0, "it ended: {greeting}");
        }
        let address = greeting.split("http://").nth(1).unwrap().lines().next().unwrap().to_owned();
        Self { child, address }
    }

    fn request(&self, method: &str, path: &str, key: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Returns the text of a completion, and the number of cached tokens.
    fn complete(&self, key: &str) -> (String, u64) {
        let body = json!({"prompt": prompt(0), "max_tokens": 40, "temperature": 0});
        let answer = self.request("POST", "/v1/completions", key, &body.to_string());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let cached = &answer["usage"]["prompt_tokens_details"]["cached_tokens"];
        (answer["choices"][0]["text"].as_str().unwrap().to_owned(), cached.as_u64().unwrap())
    }

    fn metric(&self, name: &str) -> f64 {
        let metrics = self.request("GET", "/metrics", "alice", "");
        let line = metrics.lines().find(|line| line.starts_with(&format!("wf:{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {metrics}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Waits until the thread of the cache has written pages.
    fn wait_for_pages(&self, pages: f64) {
        while self.metric("disk_cache_writes_total") < pages {
            std::thread::yield_now();
        }
    }
}

/// Returns a story of more than a hundred tokens.
fn prompt(number: usize) -> String {
    let sentence =
        "Once upon a time, there was a little dog who liked to play in the park with a red ball. ";
    format!("Story {number}. {}", sentence.repeat(6))
}

#[test]
fn a_killed_server_finds_the_prompts_of_each_caller_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = Server::start(dir.path());
    let (text, cached) = first.complete("alice");
    assert_eq!(cached, 0);
    first.wait_for_pages(4.0);
    assert!(first.metric("disk_cache_misses_total") >= 1.0);
    drop(first);

    let second = Server::start(dir.path());
    assert_eq!(second.complete("bob"), (text.clone(), 0), "pages of another key are not shared");
    let (again, cached) = second.complete("alice");
    assert_eq!(again, text);
    assert!(cached >= 96 && cached.is_multiple_of(32), "{cached} cached tokens");
    assert_eq!(second.metric("disk_cache_hits_total"), cached as f64 / 32.0);
    assert!(second.metric("disk_cache_bytes") > 0.0);
    drop(second);

    // Without the secret that salts are made with, pages have other names.
    fs::remove_file(dir.path().join("salt-key")).unwrap();
    assert_eq!(Server::start(dir.path()).complete("alice"), (text, 0));
}

/// Runs `wf chat` with lines of input, and returns the output.
fn chat(lines: &str, args: &[&str]) -> String {
    let mut child = wf(&[&["chat", "--temperature", "0"], args].concat())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_resumed_conversation_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (pages, saved) = (dir.path().join("pages"), dir.path().join("chat.json"));
    let (pages, saved) = (pages.to_str().unwrap(), saved.to_str().unwrap());
    let first = format!("{}\n/save {saved}\n", prompt(0));
    chat(&first, &["--cache-dir", pages]);
    let next = "Tell me more about the ball.\n/stats\n";
    let resumed = chat(next, &["--resume", saved, "--cache-dir", pages]);
    let read_again = chat(next, &["--resume", saved]);
    let response = |output: &str| output.lines().next().unwrap().to_owned();
    assert_eq!(response(&resumed), response(&read_again));
    let cached = |output: &str| -> usize {
        let counts = output.split(" cached").next().unwrap();
        counts.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(cached(&read_again), 0);
    assert!(cached(&resumed) >= 96, "{resumed}");
}

fn run(dir: Option<&Path>, number: usize) -> Command {
    let prompt = prompt(number);
    let mut args = vec!["run", "--raw", "--json", "-n", "8", &prompt];
    // A few pages only: pages are removed while others are written.
    if let Some(dir) = dir {
        args.extend(["--cache-size", "3M", "--cache-dir", dir.to_str().unwrap()]);
    }
    wf(&args)
}

fn result(mut command: Command) -> (Value, u64) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    (result["ids"].clone(), result["timings"]["cached_tokens"].as_u64().unwrap())
}

/// Kills processes while they write pages, each after one more page is there, and compares what the next ones
/// generate. Returns how often pages of a killed process were used.
fn survives(kills: usize) -> usize {
    let dir = tempfile::tempdir().unwrap();
    // A page that is being written has another name.
    let is_page = |path: &Path| path.extension().is_some_and(|end| end == "page");
    let pages = || {
        let entries = fs::read_dir(dir.path()).into_iter().flatten().flatten();
        entries.filter(|entry| is_page(&entry.path())).count()
    };
    let mut used = 0;
    for kill in 0..kills {
        let (before, prompt) = (pages(), kill / 3);
        let mut child = run(Some(dir.path()), prompt).spawn().unwrap();
        while pages() == before && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if kill % 10 == 9 {
            let (ids, cached) = result(run(Some(dir.path()), prompt));
            assert_eq!(ids, result(run(None, prompt)).0, "after kill {kill}");
            used += usize::from(cached > 0);
        }
    }
    let bytes: u64 = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 4 << 20, "{bytes} bytes in a directory of 3 MiB");
    used
}

#[test]
fn a_killed_process_leaves_pages_that_can_be_used_and_no_wrong_ones() {
    assert_eq!(survives(10), 1);
}

#[test]
#[ignore = "takes minutes: ./check --long runs it"]
fn a_thousand_kills_give_no_wrong_token() {
    assert!(survives(1000) >= 90);
}
