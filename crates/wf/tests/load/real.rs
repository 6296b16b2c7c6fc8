//! The real server with the demo model.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{command, wf};

/// A server on a port of its own, which ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let mut command = command(&[&["serve", "--port", "0", "--log", "error"], flags].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("wf serves");
        // The first line comes when the model is loaded: NAME on URL.
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.trim().split(' ').next_back().expect("an address").to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The report of a checked load, which has to pass.
fn load(server: &Server, flags: &[&str]) -> Value {
    let base = ["load", "--url", &server.url, "--check", "--logprobs", "--json"];
    let output = wf(&[&base[..], flags].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn responses_under_load_equal_those_sent_alone() {
    let server = Server::start(&[]);
    let report = load(&server, &["--requests", "60", "--concurrency", "16", "--distinct", "20"]);
    assert_eq!((&report["ok"], &report["check"]["equal"]), (&60.into(), &60.into()));
    assert_eq!(report["server"]["unfinished"], 0);
    assert!(report["cached_tokens"].as_u64() > Some(0), "{report}");

    let output = wf(&["validate", "--url", &server.url, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["checks"].as_array().map(Vec::len), Some(5));
}

#[test]
fn preempted_responses_equal_those_sent_alone() {
    let server = Server::start(&["--kv-memory", SMALL_POOL, "--context", "512"]);
    let report = load(&server, &["--requests", "40", "--concurrency", "16", "--distinct", "20"]);
    assert_eq!(report["check"]["equal"], 40);
    assert!(report["server"]["counted"]["preemptions"].as_u64() > Some(0), "{report}");
}

#[test]
fn disconnecting_clients_leave_nothing_behind() {
    let server = Server::start(&[]);
    let flags = ["--requests", "60", "--concurrency", "16", "--distinct", "20", "--cancel", "0.6"];
    let report = load(&server, &flags);
    assert!(report["hung_up"].as_u64() > Some(10), "{report}");
    assert!(report["server"]["quiet_ms"].as_f64().is_some(), "{report}");
}

/// Memory for about 800 tokens, half of what sixteen requests have.
const SMALL_POOL: &str = "5M";

#[cfg(unix)]
#[test]
fn unix_sockets_are_supported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wf.sock");
    let _server = Server::start(&["--socket", path.to_str().unwrap()]);
    let url = format!("unix:{}", path.display());
    let output = wf(&["load", "--url", &url, "--requests", "4", "--max-tokens", "4"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
