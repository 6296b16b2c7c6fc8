//! A client of an MCP server that runs as a child process: JSON-RPC in lines over its standard input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

const PROTOCOL_VERSION: &str = "2025-06-18";
/// Maximum length of a line in bytes.
const MAX_LINE_LEN: u64 = 16 << 20;
/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 200;
/// Time to answer everything but calls, which take as long as they take.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// A tool of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpTool {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default = "any_object")]
    pub(crate) input_schema: Value,
}

fn any_object() -> Value {
    json!({"type": "object"})
}

/// A running server. It is killed when this is dropped.
pub(crate) struct McpServer {
    /// The command, for messages.
    name: String,
    /// Lines that a thread writes, so that a server that reads nothing cannot stop the chat.
    input: mpsc::Sender<String>,
    /// Lines that a thread reads.
    output: UnboundedReceiver<Vec<u8>>,
    requests: u64,
    child: Child,
}

impl Drop for McpServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl McpServer {
    /// Starts a command, whose words are separated by spaces or quoted, and begins a session with it.
    pub(crate) async fn start(command: &str) -> Result<Self> {
        let words = split_words(command).with_context(|| format!("--mcp-server {command:?}"))?;
        let (program, args) = words.split_first().context("--mcp-server has no command")?;
        let child =
            Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("--mcp-server: starting {program}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).context("a child has both ends of its pipes")?;
        let (input, lines) = mpsc::channel();
        thread::spawn(move || write_lines(stdin, &lines));
        let (sender, output) = unbounded_channel();
        thread::spawn(move || read_lines(stdout, &sender));
        let mut server = Self { name: program.clone(), input, output, requests: 0, child };
        server.initialize().await.with_context(|| format!("--mcp-server {program}"))?;
        Ok(server)
    }

    async fn initialize(&mut self) -> Result<()> {
        let client = json!({"name": "wf", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": client,
        });
        self.ask("initialize", params).await?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// Lists the tools.
    pub(crate) async fn tools(&mut self) -> Result<Vec<McpTool>> {
        let mut tools: Vec<McpTool> = Vec::new();
        let mut cursor = Value::Null;
        while tools.len() < MAX_TOOLS {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let page = self.ask("tools/list", params).await?;
            let listed = Vec::<McpTool>::deserialize(&page["tools"]);
            tools.extend(listed.with_context(|| format!("{}: tools/list", self.name))?);
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        tools.truncate(MAX_TOOLS);
        Ok(tools)
    }

    /// Calls a tool. Returns its texts; those of a tool that failed say so.
    pub(crate) async fn call(&mut self, name: &str, arguments: &Value) -> Result<String> {
        let params = json!({"name": name, "arguments": arguments});
        let result = self.request("tools/call", params).await?;
        let part = |part: &Value| match (&part["text"], &part["type"]) {
            (Value::String(text), _) => text.clone(),
            (_, kind) => format!("[{}]", kind.as_str().unwrap_or("unknown content")),
        };
        let parts: Vec<_> = result["content"].as_array().into_iter().flatten().map(part).collect();
        let text = parts.join("\n");
        Ok(if result["isError"] == json!(true) { format!("the tool failed: {text}") } else { text })
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let seconds = ANSWER_TIME.as_secs();
        let answer = timeout(ANSWER_TIME, self.request(method, params)).await;
        answer.unwrap_or_else(|_| bail!("no answer to {method} within {seconds} s"))
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.requests += 1;
        let id = self.requests;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request)?;
        loop {
            let mut message = self.receive(method).await?;
            if message["method"].is_string() {
                self.answer(&message)?;
            } else if message["id"] == json!(id) {
                let error = &message["error"];
                if !error.is_null() {
                    let what = error["message"].as_str().unwrap_or("unknown error");
                    bail!("{method}: {what}");
                }
                return Ok(message["result"].take());
            }
            // Else it is the answer to a request that was given up.
        }
    }

    /// Answers a request of the server. This client has nothing to offer but that it is there.
    fn answer(&self, message: &Value) -> Result<()> {
        let id = &message["id"];
        if id.is_null() {
            return Ok(());
        }
        self.send(&match message["method"].as_str() {
            Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                let error = json!({"code": -32601, "message": "method not found"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        })
    }

    fn send(&self, message: &Value) -> Result<()> {
        let sent = self.input.send(format!("{message}\n"));
        sent.map_err(|_| anyhow!("{} has ended", self.name))
    }

    async fn receive(&mut self, method: &str) -> Result<Value> {
        let line = self.output.recv().await;
        let line =
            line.with_context(|| format!("{} ended without an answer to {method}", self.name))?;
        ensure!(line.ends_with(b"\n"), "{} sent a line that is too long or has no end", self.name);
        serde_json::from_slice(&line).with_context(|| format!("{} sent no JSON", self.name))
    }
}

/// Writes lines until one side has ended.
fn write_lines(mut stdin: ChildStdin, lines: &mpsc::Receiver<String>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads lines until one side has ended, or a line is too long.
fn read_lines(stdout: ChildStdout, lines: &UnboundedSender<Vec<u8>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout).take(MAX_LINE_LEN).read_until(b'\n', &mut line);
        let is_last = !line.ends_with(b"\n");
        if !matches!(read, Ok(1..)) || lines.send(line).is_err() || is_last {
            return;
        }
    }
}

/// Splits a command at spaces that are not inside of quotes. There are no other special characters.
fn split_words(command: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in command.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(anyhow!("a quote has no end")) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_at_spaces_outside_of_quotes() {
        let words = |command| split_words(command).unwrap();
        assert_eq!(words("npx  -y server"), ["npx", "-y", "server"]);
        assert_eq!(words(r#"run 'a b' "it's" x""y ''"#), ["run", "a b", "it's", "xy", ""]);
        assert!(words(" ").is_empty());
        assert!(split_words("run 'a").is_err());
    }
}
