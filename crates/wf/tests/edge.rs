//! Tests of `wf serve` with TLS and traces, or of the errors without them.

#[cfg(feature = "tls")]
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::program;

fn command(args: &[&str]) -> Command {
    let mut command = program::command(&["serve", "--port", "0"]);
    command.args(args);
    command
}

/// Returns the message of a server that must fail to start.
fn fails(args: &[&str]) -> String {
    let Output { status, stderr, .. } = command(args).output().expect("wf runs");
    assert!(!status.success());
    String::from_utf8(stderr).expect("text")
}

#[cfg(any(feature = "tls", feature = "otlp"))]
mod running {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    /// A server that is stopped at the end of the test.
    pub(crate) struct Running(pub(crate) Child);

    /// Starts a server. Returns it and its first line, which is printed when the model is loaded.
    pub(crate) fn start(args: &[&str]) -> (Running, String) {
        let mut child = super::command(args).stdout(Stdio::piped()).spawn().expect("wf serves");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        let running = Running(child);
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        (running, line.trim().to_owned())
    }

    impl Drop for Running {
        fn drop(&mut self) {
            // It may have exited already.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[test]
fn a_tls_file_requires_the_other() {
    let message = fails(&["--tls-cert", "cert.pem"]);
    assert!(message.contains("--tls-cert requires --tls-key"), "{message}");
    let message = fails(&["--tls-key", "key.pem"]);
    assert!(message.contains("--tls-key requires --tls-cert"), "{message}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_tls_the_error_says_how_to_build_it() {
    let message = fails(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(message.contains("build it with --features tls"), "{message}");
}

#[cfg(feature = "tls")]
#[test]
fn tls_urls_are_https_and_errors_name_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(file("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(file("key.pem"), pair.signing_key.serialize_pem()).unwrap();
    let (_server, line) =
        running::start(&["--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")]);
    assert!(line.contains(" on https://127.0.0.1:"), "{line}");
    let port = line.rsplit(':').next().and_then(|rest| rest.split(['/', ' ']).next()).unwrap();
    chat_over_tls(&format!("https://localhost:{port}"), &file("cert.pem"), &file("key.pem"));
    let message = fails(&["--tls-cert", &file("cert.pem"), "--tls-key", &file("absent.pem")]);
    assert!(
        message.contains("--tls-cert, --tls-key: ") && message.contains("absent.pem"),
        "{message}"
    );
}

/// Chats with a server whose certificate is its own authority.
#[cfg(feature = "tls")]
fn chat_over_tls(url: &str, certificate: &str, key: &str) {
    let chat = |args: &[&str]| {
        let mut command = program::command(&["chat", "--url", url, "--max-tokens", "3"]);
        command.args(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("wf runs");
        // It may have failed already.
        let _ = child.stdin.take().expect("a pipe").write_all(b"Hello.\n");
        let Output { status, stdout, stderr } = child.wait_with_output().expect("wf ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (status.success(), text(stdout), text(stderr))
    };
    let (ok, text, message) = chat(&["--ca-cert", certificate]);
    assert!(ok && !text.trim().is_empty(), "{text}{message}");
    let (ok, _, message) = chat(&[]);
    assert!(!ok && message.contains("add that authority with --ca-cert"), "{message}");
    let (ok, _, message) = chat(&["--ca-cert", key]);
    assert!(
        !ok && message.contains("key.pem") && message.contains("BEGIN CERTIFICATE"),
        "{message}"
    );
}

#[cfg(not(feature = "otlp"))]
#[test]
fn without_otlp_the_error_says_how_to_build_it() {
    let message = fails(&["--otlp", "http://127.0.0.1:4318"]);
    assert!(message.contains("build it with --features otlp"), "{message}");
}

#[cfg(feature = "otlp")]
mod otlp {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::thread::{self, JoinHandle};

    use super::fails;
    use super::running::start;

    const TRACE: [u8; 16] = *b"\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36";
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const KEY: &str = "sk-nobody-may-see-this";
    const PROMPT: &str = "Marmalade";

    /// Starts a collector for one request. Returns its address, and a thread that returns head and body.
    fn collector() -> (String, JoinHandle<(String, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            loop {
                let count = stream.read(&mut buffer).expect("bytes");
                assert!(count > 0, "all of it comes");
                bytes.extend_from_slice(&buffer[..count]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
                if bytes.len() - end - 4 == content_length(&head) {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .expect("a reader");
                    return (head, bytes.split_off(end + 4));
                }
            }
        });
        (url, seen)
    }

    fn content_length(head: &str) -> usize {
        let lines = head.lines().map(str::to_ascii_lowercase);
        let mut lengths =
            lines.filter_map(|line| Some(line.strip_prefix("content-length: ")?.to_owned()));
        lengths.next().expect("a length").parse().expect("a number")
    }

    fn has(bytes: &[u8], part: impl AsRef<[u8]>) -> bool {
        let part = part.as_ref();
        bytes.windows(part.len()).any(|window| window == part)
    }

    /// Requests a completion that belongs to a trace.
    fn complete(address: &str, stream: bool) -> String {
        let body = format!(
            r#"{{"prompt": "{PROMPT}", "max_tokens": 7, "ignore_eos": true, "stream": {stream}}}"#
        );
        let mut connection = TcpStream::connect(address).expect("a server");
        write!(
            connection,
            "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\nauthorization: Bearer {KEY}\r\n\
             traceparent: {PARENT}\r\nx-request-id: named-by-us\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("a reader");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("text");
        answer
    }

    #[cfg(unix)]
    #[test]
    fn otlp_spans_are_flushed_by_a_gentle_stop() {
        for stream in [false, true] {
            let (url, seen) = collector();
            let (mut server, line) = start(&["--otlp", &url, "--api-key", KEY]);
            let address = line.rsplit("http://").next().unwrap();
            let answer = complete(address, stream);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let pid = server.0.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            assert!(server.0.wait().unwrap().success());

            // If no post has come by now, this connection ends the collector.
            let _ = TcpStream::connect(url.trim_start_matches("http://"));
            let (head, body) = seen.join().unwrap();
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            assert!(head.to_ascii_lowercase().contains("application/x-protobuf"), "{head}");
            assert!(has(&body, TRACE), "the trace that was sent");
            assert!(has(&body, b"\x00\xf0\x67\xaa\x0b\xa9\x02\xb7"), "the span that was sent");
            for text in [
                "wrinklefree",
                "POST /v1/completions",
                "http.response.status_code",
                "named-by-us",
                "gen_ai.request.model",
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.output_tokens",
                "length",
            ] {
                assert!(has(&body, text), "{text}: {}", String::from_utf8_lossy(&body));
            }
            // In protobuf: the value (field 2) has two bytes, of which an integer (field 3) is 7.
            assert!(has(&body, b"gen_ai.usage.output_tokens\x12\x02\x18\x07"), "seven tokens");
            assert!(has(&body, b"http.response.status_code\x12\x03\x18\xc8\x01"), "200");
            for secret in [PROMPT, KEY, "Bearer"] {
                assert!(!has(&body, secret), "{secret}");
            }
        }
    }

    #[test]
    fn invalid_otlp_addresses_are_errors() {
        let message = fails(&["--otlp", "https://collector.example"]);
        assert!(
            message.contains("--otlp") && message.contains("https is not supported"),
            "{message}"
        );
    }
}
