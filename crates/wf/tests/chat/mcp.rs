//! Tests of tools by MCP.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::chat;
#[cfg(target_os = "linux")]
use super::pty::Terminal;
use super::scripted::{answer, scripted};

/// A server in a shell script. Requests have the ids 1, 2, 3.
const SERVER: &str = r#"
while read -r line; do
  printf '%s\n' "$line" >> "$1"
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}' ;;
    *'"tools/list"'*)
      echo '{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
      echo '{"jsonrpc":"2.0","id":7,"method":"ping"}'
      echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","description":"Adds"}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"5"}]}}' ;;
  esac
done
"#;

const MODELS: &str = r#"{"data": [{"id": "m"}]}"#;

fn event(delta: &str, reason: &str) -> String {
    format!("data: {{\"choices\": [{{\"delta\": {delta}, \"finish_reason\": {reason}}}]}}\n\n")
}

/// Answers of a server whose model calls a tool, in two parts, and then says what it got.
fn answers() -> Vec<String> {
    let call = |part: &str| event(&format!(r#"{{"tool_calls": [{part}]}}"#), "null");
    let calls = event(r#"{"content": "Let me see."}"#, "null")
        + &call(r#"{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{\"a\":"}}"#)
        + &call(r#"{"index": 0, "function": {"arguments": " 2}"}}"#)
        + &event("{}", r#""tool_calls""#)
        + "data: [DONE]\n\n";
    let end = event(r#"{"content": "It is 5."}"#, r#""stop""#) + "data: [DONE]\n\n";
    let stream = |body: &str| answer("text/event-stream", body);
    vec![answer("application/json", MODELS), stream(&calls), stream(&end)]
}

fn run(folder: &Path, flags: &[&str], lines: &str) -> Output {
    let input = folder.join("input");
    std::fs::write(&input, lines).unwrap();
    let mut command: Command = chat(folder, flags);
    command.stdin(std::fs::File::open(&input).unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

fn server(folder: &Path) -> (String, std::path::PathBuf) {
    let (script, log) = (folder.join("server.sh"), folder.join("log"));
    std::fs::write(&script, SERVER).unwrap();
    (format!("sh '{}' '{}'", script.display(), log.display()), log)
}

#[test]
fn a_model_calls_tools_and_gets_their_results() {
    let folder = tempfile::tempdir().unwrap();
    let (command, log) = server(folder.path());
    let (url, requests) = scripted(answers());
    let flags = ["--url", &url, "--mcp-server", &command, "--mcp-allow"];
    let output = run(folder.path(), &flags, "Add 2 and 3\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text, "Let me see.\nIt is 5.\n");
    let requests = requests.join().unwrap();
    assert!(requests[1].contains(r#""tools":[{"type":"function","function":{"name":"add","#));
    assert!(requests[2].contains(r#""arguments":"{\"a\": 2}""#), "{}", requests[2]);
    let result = r#"{"role":"tool","content":"5","tool_call_id":"c1"}"#;
    assert!(requests[2].contains(result), "{}", requests[2]);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("notifications/initialized"), "{log}");
    assert!(log.contains(r#""id":7,"result":{}"#), "a ping is answered: {log}");
    assert!(log.contains(r#""params":{"name":"add","arguments":{"a":2}}"#), "{log}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_waits_for_an_answer_on_a_terminal() {
    for (typed, expected) in [("y", r#""content":"5""#), ("", "the user did not allow this call")] {
        let folder = tempfile::tempdir().unwrap();
        let (command, _) = server(folder.path());
        let (url, requests) = scripted(answers());
        let flags = ["--url", &url, "--mcp-server", &command];
        let mut terminal = Terminal::start(&chat(folder.path(), &flags));
        assert!(terminal.prompt().contains("tools: add"));
        terminal.line("Add 2 and 3");
        terminal.wait("call add? yes, always or no [no]: ");
        terminal.line(typed);
        assert!(terminal.prompt().contains("It is 5."));
        assert!(requests.join().unwrap()[2].contains(expected), "{typed}");
    }
}

#[test]
fn mistakes_are_errors_at_start() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (&["--mcp-server", "cat"][..], "requires --mcp-allow"),
        (&["--mcp-allow", "--mcp-server", "no-such-program"], "starting no-such-program"),
        (&["--mcp-allow", "--mcp-server", "true"], "true"),
        (&["--mcp-allow", "--mcp-server", "echo hello"], "echo"),
        (&["--mcp-allow", "--mcp-server", "'x"], "a quote has no end"),
    ] {
        let output = run(folder.path(), flags, "hello\n");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(words), "{flags:?}: {message}");
    }
}

/// The built-in model is told of the tools and answers as it can.
#[test]
fn a_local_model_is_offered_tools() {
    let folder = tempfile::tempdir().unwrap();
    let (command, _) = server(folder.path());
    let flags = ["-n", "8", "--mcp-server", &command, "--mcp-allow"];
    let output = run(folder.path(), &flags, "hello\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty());
}
