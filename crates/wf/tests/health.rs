//! Tests of `wf health`, and of `wf serve` under systemd: readiness, watchdog and sockets, with a test in its place.

#![cfg(target_os = "linux")]
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use crate::program::command;

/// A process that is killed if a test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Returns what it printed until it was ready.
    fn greeting(&mut self) -> String {
        let mut out: BufReader<&mut ChildStdout> = BufReader::new(self.0.stdout.as_mut().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("/docs") {
            assert!(out.read_line(&mut greeting).unwrap() > 0, "it ended: {greeting}");
        }
        greeting
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

fn health(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        command(&[&["health"], args].concat()).output().unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn a_server_is_healthy_once_it_serves() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("wf.sock");
    let mut server = Running::start(&mut command(&["serve", "--socket", socket.to_str().unwrap()]));
    server.greeting();
    let url = format!("unix:{}", socket.display());
    let (code, text) = health(&[&url]);
    assert_eq!((code, text), (0, format!("{url} is healthy: wf-demo, 0 running, 0 waiting\n")));
    // By the variable that the server itself would use.
    let output = command(&["health"]).env("WF_SOCKET", &socket).output().unwrap();
    assert!(output.status.success());
    server.signal("-TERM");
    server.0.wait().unwrap();
    let (code, text) = health(&[&url]);
    assert!(code == 1 && text.contains("is not healthy: cannot connect"), "{text}");
    assert_eq!(health(&["ftp://host"]).0, 1);
}

/// Serves one connection with a response, or with silence.
fn respond(listener: &TcpListener, response: Option<&str>) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    if let Some(response) = response {
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(response.as_bytes()).unwrap();
    }
    stream
}

#[test]
fn a_server_that_loads_or_hangs_is_not_healthy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = r#"{"error":{"message":"the model is still loading","type":"server_error"}}"#;
    let loading = format!(
        "HTTP/1.1 503 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| health(&[&url]));
        let _stream = respond(&listener, Some(&loading));
        let (code, text) = asked.join().unwrap();
        assert!(code == 1 && text.contains("503: the model is still loading"), "{text}");
        let asked = scope.spawn(|| health(&[&url, "--timeout", "1"]));
        let _silent = respond(&listener, None);
        let (code, text) = asked.join().unwrap();
        assert!(code == 1 && text.contains("1 s"), "{text}");
    });
}

/// The socket that systemd would listen on.
struct Systemd {
    _directory: tempfile::TempDir,
    path: PathBuf,
    socket: UnixDatagram,
}

impl Systemd {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        Self { _directory: directory, path, socket }
    }

    fn next(&self) -> String {
        let mut bytes = [0; 512];
        let len = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }
}

#[test]
fn systemd_is_told_when_the_server_is_ready_alive_and_stopping() {
    let systemd = Systemd::new();
    let mut command = command(&["serve", "--port", "0"]);
    command.env("NOTIFY_SOCKET", &systemd.path).env("WATCHDOG_USEC", "400000");
    let server = Running::start(&mut command);
    assert_eq!(systemd.next(), "STATUS=loading the model");
    let ready = systemd.next();
    let status = "READY=1\nSTATUS=wf-demo on http://127.0.0.1:";
    assert!(ready.starts_with(status), "{ready}");
    for _ in 0..3 {
        assert_eq!(systemd.next(), "WATCHDOG=1");
    }
    server.signal("-TERM");
    let told = std::iter::repeat_with(|| systemd.next()).find(|state| state != "WATCHDOG=1");
    assert!(told.unwrap().starts_with("STOPPING=1\n"));
}

#[test]
fn the_watchdog_of_another_process_gets_no_signs_of_life() {
    let systemd = Systemd::new();
    let mut command = command(&["serve", "--port", "0"]);
    command.env("NOTIFY_SOCKET", &systemd.path).env("WATCHDOG_USEC", "1000");
    let server = Running::start(command.env("WATCHDOG_PID", "1"));
    let told: Vec<String> = (0..2).map(|_| systemd.next()).collect();
    assert!(told[1].starts_with("READY=1"), "{told:?}");
    server.signal("-TERM");
    assert!(systemd.next().starts_with("STOPPING=1"));
}

#[test]
fn a_socket_that_cannot_be_reached_is_a_warning() {
    let mut command = command(&["serve", "--port", "0"]);
    let mut server = Running::start(command.env("NOTIFY_SOCKET", "/nowhere/notify"));
    server.greeting();
    server.signal("-TERM");
    assert!(server.0.wait().unwrap().success());
    let mut text = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("warning: NOTIFY_SOCKET is /nowhere/notify"), "{text}");
}

/// Starts a server with `socket` as descriptor 3. The shell duplicates it from standard input and keeps its id.
fn activated(socket: impl Into<Stdio>, flags: &str) -> Command {
    let mut command = Command::new("sh");
    let script =
        format!("export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" serve {flags} 3<&0 </dev/null");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_wf")]).stdin(socket);
    command
}

fn is_served<S: Read + Write>(mut stream: S) -> bool {
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200")
}

fn duplicate(fd: impl Into<std::os::fd::OwnedFd>) -> Stdio {
    Stdio::from(fd.into())
}

#[test]
fn a_server_takes_the_socket_of_systemd() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A request before the server starts waits for it.
    let waiting = TcpStream::connect(address).unwrap();
    let mut server = Running::start(&mut activated(duplicate(listener), "--host 0.0.0.0"));
    assert!(server.greeting().contains(&format!("http://{address}")));
    assert!(is_served(waiting) && is_served(TcpStream::connect(address).unwrap()));

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wf.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut server = Running::start(&mut activated(duplicate(listener), ""));
    assert!(server.greeting().contains(&format!("unix:{}", path.display())));
    assert!(is_served(UnixStream::connect(&path).unwrap()));
    server.signal("-TERM");
    assert!(server.0.wait().unwrap().success());
    assert!(Path::new(&path).exists(), "the file belongs to systemd");
}

#[test]
fn sockets_that_cannot_be_used_are_errors() {
    let public = TcpListener::bind("0.0.0.0:0").unwrap();
    let output = activated(duplicate(public), "").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("--api-key-file"), "{message}");
    let (datagram, _other) = UnixDatagram::pair().unwrap();
    let output = activated(duplicate(datagram), "").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("LISTEN_FDS"), "{message}");
}
