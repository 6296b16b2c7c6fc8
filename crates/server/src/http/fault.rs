//! Errors of HTTP itself as JSON.
//!
//! `hyper` answers a head that is too large or not HTTP with a status and no body, before any handler runs. This
//! stream gives such a response the body and the request id of every other error.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::AsyncWrite;

use super::request_id;
use crate::error::ApiError;

/// The sending half of a stream, which adds bodies to errors without one.
pub(crate) struct FaultBodies<S> {
    stream: S,
    /// Rest of a response that replaces another one.
    rest: Vec<u8>,
}

impl<S> FaultBodies<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, rest: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> FaultBodies<S> {
    fn write_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.rest.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.rest))?;
            if written == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.rest.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the status of a response that is an error without a body.
fn bare_error(bytes: &[u8]) -> Option<StatusCode> {
    let head = std::str::from_utf8(bytes.strip_suffix(b"\r\n\r\n")?).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let is_empty = lines.any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    let status: StatusCode = status.parse().ok()?;
    (is_empty && status.is_client_error()).then_some(status)
}

/// Returns the response of an error of HTTP.
fn response(status: StatusCode) -> Vec<u8> {
    let (code, message) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ("head_too_large", "request head is larger than the limit, or has too many fields")
        }
        StatusCode::URI_TOO_LONG => ("uri_too_long", "request target is longer than the limit"),
        _ => ("invalid_http", "request is not valid HTTP/1.1"),
    };
    let body = ApiError::status(status, code, message).body();
    let body = serde_json::to_string(&body).unwrap_or_default();
    let (header, id) = (request_id::HEADER, request_id::random());
    let reason = status.canonical_reason().unwrap_or_default();
    format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         {header}: {id}\r\nconnection: close\r\n\r\n{body}",
        status.as_u16(),
        body.len()
    )
    .into_bytes()
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FaultBodies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        ready!(self.write_rest(cx))?;
        match bare_error(buf) {
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
            Some(status) => {
                self.rest = response(status);
                // What is not written now is written before a flush.
                if let Poll::Ready(Err(error)) = self.write_rest(cx) {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(buf.len()))
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if let [head] = bufs {
            return self.poll_write(cx, head);
        }
        ready!(self.write_rest(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.write_rest(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.write_rest(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_errors_without_a_body_are_replaced() {
        let head = |status: &str, len: usize| {
            format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\ndate: x\r\n\r\n").into_bytes()
        };
        assert_eq!(bare_error(&head("400 Bad Request", 0)), Some(StatusCode::BAD_REQUEST));
        for other in [head("200 OK", 0), head("400 Bad Request", 7), b"HTTP/1.1 400 x".to_vec()] {
            assert_eq!(bare_error(&other), None);
        }
    }

    #[tokio::test]
    async fn a_replaced_response_arrives_whole_through_a_narrow_stream() {
        let (mut client, server) = tokio::io::duplex(10);
        let mut server = FaultBodies::new(server);
        let write = tokio::spawn(async move {
            let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
            server.write_all(bare).await.unwrap();
            server.shutdown().await.unwrap();
        });
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        write.await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "head_too_large");
    }
}
