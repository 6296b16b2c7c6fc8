//! A server to test, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::program;

/// A running server, killed if a test ends early.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// Text printed when it was ready.
    pub(crate) greeting: String,
    pub(crate) address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(flags: &[&str]) -> Command {
    let mut command = program::command(&["serve"]);
    command.args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn start(command: &mut Command) -> Server {
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut greeting = String::new();
    while !greeting.contains("/docs") {
        assert!(out.read_line(&mut greeting).unwrap() > 0, "it ended: {greeting}");
    }
    let address = greeting.split("http://").nth(1).unwrap().lines().next().unwrap().to_owned();
    Server { child, greeting, address }
}

pub(crate) fn fails(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

impl Server {
    pub(crate) fn get(&self, path: &str, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn post(&self, path: &str, head: &str, body: &str) -> String {
        let len = body.len();
        let head = format!("content-type: application/json\r\ncontent-length: {len}\r\n{head}");
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}
