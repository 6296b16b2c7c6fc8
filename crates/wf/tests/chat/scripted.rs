//! A server with scripted responses.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// Starts a server that sends `answers`, one per connection. Returns its address, and a thread that
/// returns the requests.
pub(crate) fn scripted(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let answer = |answer: &String| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            request
        };
        answers.iter().map(answer).collect()
    });
    (url, asked)
}

fn request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

/// Returns a response with a body of a content type.
pub(crate) fn answer(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}")
}
