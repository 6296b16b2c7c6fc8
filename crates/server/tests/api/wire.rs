//! Connections: slow, closed, stalled and too large requests, and shutdown.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wf_api::sse::{DONE, EventReader};
use wf_engine::Frontend;
use wf_server::{App, Limits, ServerOptions, bind, serve};

use crate::support::{app, frontend, options};

struct Running {
    address: std::net::SocketAddr,
    signals: mpsc::Sender<()>,
    ended: JoinHandle<()>,
    frontend: Frontend,
}

async fn start(limits: Limits) -> Running {
    start_with(ServerOptions { limits, ..options() }, frontend()).await
}

async fn start_with(options: ServerOptions, frontend: Frontend) -> Running {
    let bound = bind(([127, 0, 0, 1], 0).into(), None).await.unwrap();
    let address = bound.address().unwrap();
    let app: App = app(options, frontend.clone());
    let (signals, mut receiver) = mpsc::channel(1);
    let ended = tokio::spawn(serve(bound, app, async move {
        let _ = receiver.recv().await;
    }));
    Running { address, signals, ended, frontend }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the other side closes.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    /// Waits until nothing runs or waits, and no page is held.
    async fn idle(&self) {
        let stats = || self.frontend.engine().stats();
        while stats().running + stats().waiting + stats().pages_in_use > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // Some of these connections are reset, which is an end, too.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn request(path: &str, body: &serde_json::Value, more: &str) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{more}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn long_stream() -> Vec<u8> {
    let body = json!({"prompt": "Once", "max_tokens": 1500, "ignore_eos": true, "stream": true});
    request("/v1/completions", &body, "connection: close\r\n")
}

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn heads_that_are_too_large_or_too_slow_end() {
    let server = start(Limits { read_timeout: SHORT, ..Limits::default() }).await;
    let fields = |count: usize| {
        let fields: String = (2..count).map(|i| format!("x-{i}: y\r\n")).collect();
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n")
    };
    assert!(server.say(fields(64).as_bytes()).await.starts_with("HTTP/1.1 200"));
    assert!(server.say(fields(65).as_bytes()).await.starts_with("HTTP/1.1 431"));
    let long =
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    assert!(server.say(long.as_bytes()).await.starts_with("HTTP/1.1 431"));
    // Nobody waits for the rest of a head for ever.
    let slow = server.say(b"GET /livez HTTP/1.1\r\nhost: loc").await;
    assert!(slow.is_empty() || slow.starts_with("HTTP/1.1 408"), "{slow}");
    // Nor for the rest of a body.
    let slow = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: 100\r\n\r\n{\"prompt\"";
    assert!(server.say(slow).await.starts_with("HTTP/1.1 408"));
}

/// Checks that an error has a request id and a JSON body.
fn check_error(answer: &str) {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return };
    assert!(head.contains("x-request-id: "), "{answer}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    assert!(body["error"]["message"].is_string(), "{answer}");
}

#[tokio::test]
async fn protocol_abuse_is_answered_or_closed() {
    let server = start(Limits { read_timeout: SHORT, ..Limits::default() }).await;
    for abuse in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\nconnection: close\r\n\r\n",
        b"GET http://evil/livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: 5\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: -1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: 5\r\ncontent-length: 6\r\n\r\n{}",
    ] {
        let answer = server.say(abuse).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        check_error(&answer);
    }
    let long =
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: x\r\n".repeat(100));
    let not_text = "GET /v1/models/%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for (request, status) in [(long.as_str(), 431), (many.as_str(), 431), (not_text, 404)] {
        let answer = server.say(request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        check_error(&answer);
    }
    let fine = server.say(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(fine.await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn idle_connections_stay_open_for_longer_than_a_head_may_take() {
    let idle_timeout = Duration::from_secs(2);
    let server = start(Limits { read_timeout: SHORT, idle_timeout, ..Limits::default() }).await;
    let mut stream = server.connect().await;
    let head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        stream.write_all(head).await.unwrap();
        let mut bytes = [0; 4096];
        let len = stream.read(&mut bytes).await.unwrap();
        assert!(bytes[..len].starts_with(b"HTTP/1.1 200"));
    }
    assert!(read_all(&mut stream).await.is_empty());
    assert!(begun.elapsed() >= idle_timeout, "{:?}", begun.elapsed());
    // A second head must arrive as soon as a first one.
    let mut stream = server.connect().await;
    let begun = std::time::Instant::now();
    stream.write_all(head).await.unwrap();
    let _ = stream.read(&mut [0; 4096]).await.unwrap();
    stream.write_all(&head[..20]).await.unwrap();
    assert!(read_all(&mut stream).await.is_empty());
    assert!(begun.elapsed() < idle_timeout, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_pages() {
    let server = start(Limits::default()).await;
    let whole = json!({"prompt": "Once", "max_tokens": 1500, "ignore_eos": true});
    let texts = json!({"input": vec!["Once upon a time there was a dog. ".repeat(20); 256]});
    let vectors = request("/v1/embeddings", &texts, "");
    for bytes in [long_stream(), request("/v1/completions", &whole, ""), vectors] {
        for read in [0, 200] {
            let mut stream = server.connect().await;
            stream.write_all(&bytes).await.unwrap();
            // Wait for work to begin, so that there is something to cancel.
            while server.frontend.engine().stats().running == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if read > 0 && bytes == long_stream() {
                stream.read_exact(&mut vec![0; read]).await.unwrap();
            }
            drop(stream);
            server.idle().await;
        }
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_left() {
    let server = start(Limits { write_timeout: SHORT, ..Limits::default() }).await;
    // More than the system's buffers hold.
    let body = json!({"prompt": vec!["Once"; 64], "max_tokens": 1500, "ignore_eos": true,
                      "stream": true, "logprobs": 20});
    let mut stream = server.connect().await;
    stream.write_all(&request("/v1/completions", &body, "")).await.unwrap();
    while server.frontend.engine().stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.idle().await;
    drop(stream);
}

fn complete(answer: &str) -> Vec<String> {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    // Events are sent one a chunk, and chunks are lines of their own.
    let mut reader = EventReader::default();
    let mut events = reader.push(body.as_bytes());
    assert_eq!(events.pop().as_deref(), Some(DONE), "{answer}");
    events
}

#[tokio::test]
async fn shutdown_finishes_responses_in_flight() {
    let server = start(Limits::default()).await;
    let body = json!({"prompt": "Once", "max_tokens": 200, "ignore_eos": true, "stream": true});
    let bytes = request("/v1/completions", &body, "");
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect().await;
        stream.write_all(&bytes).await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        streams.push(stream);
    }
    server.signals.send(()).await.unwrap();
    let health = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    while !server.say(health).await.starts_with("HTTP/1.1 503") {}
    assert!(server.say(&bytes).await.starts_with("HTTP/1.1 503"), "no new work");
    for stream in &mut streams {
        let events = complete(&read_all(stream).await);
        assert!(events.last().unwrap().contains("\"finish_reason\":\"length\""));
    }
    server.ended.await.unwrap();
}

#[tokio::test]
async fn streams_end_with_an_error_after_the_drain_timeout() {
    let drain = Duration::from_millis(100);
    let server = start_with(ServerOptions { drain, ..options() }, frontend()).await;
    let mut stream = server.connect().await;
    stream.write_all(&long_stream()).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    server.signals.send(()).await.unwrap();
    let events = complete(&read_all(&mut stream).await);
    assert!(events.last().unwrap().contains("shutting_down"), "{events:?}");
    server.ended.await.unwrap();
}

#[tokio::test]
async fn a_deadline_is_a_finish_reason() {
    let deadline = Duration::from_millis(200);
    let server = start(Limits { deadline, ..Limits::default() }).await;
    let events = complete(&server.say(&long_stream()).await);
    assert!(events.last().unwrap().contains("\"finish_reason\":\"deadline\""));
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_in_the_file_system_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wf.sock");
    for _ in 0..2 {
        let bound = bind(([127, 0, 0, 1], 0).into(), Some(path.clone())).await.unwrap();
        let mut options = options();
        options.hosts.bound = None;
        let (signals, mut receiver) = mpsc::channel(1);
        let ended = tokio::spawn(serve(bound, app(options, frontend()), async move {
            let _ = receiver.recv().await;
        }));
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        let bytes = b"GET /livez HTTP/1.1\r\nhost: anything\r\nconnection: close\r\n\r\n";
        stream.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        signals.send(()).await.unwrap();
        ended.await.unwrap();
        assert!(!path.exists());
    }
}
