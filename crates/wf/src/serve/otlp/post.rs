//! One HTTP request, with what the program has for HTTP anyway.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Uri;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Where collectors take traces.
const PATH: &str = "/v1/traces";
/// How long a collector may take.
const LONGEST: Duration = Duration::from_secs(4);
/// Bytes of an answer, which says next to nothing.
const LARGEST_ANSWER: usize = 64 << 10;

/// Posts to one collector, each time on a connection of its own.
pub(super) struct Post {
    url: String,
    host: String,
    address: (String, u16),
    runtime: Handle,
    /// Whether the last time went wrong: a collector that is away is told of once.
    is_failing: AtomicBool,
}

impl Post {
    /// To the collector at `base`, which is its address, or that of its traces.
    pub(super) fn new(base: &str, runtime: Handle) -> Result<Self> {
        ensure!(
            !base.starts_with("https:"),
            "{base}: https is not spoken here: use http, to a \
                collector on this machine or a proxy that encrypts"
        );
        let wrong = || anyhow!("{base}: an address is needed, such as http://localhost:4318");
        let base = base.trim_end_matches('/').trim_end_matches(PATH);
        let url = format!("{base}{PATH}");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        let has_more = authority.as_str().contains('@') || uri.query().is_some();
        ensure!(uri.scheme_str() == Some("http") && !has_more, wrong());
        // A literal IPv6 address has brackets in a URL alone.
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = (name, authority.port_u16().unwrap_or(80));
        let host = authority.to_string();
        Ok(Self { url, host, address, runtime, is_failing: AtomicBool::new(false) })
    }

    /// Where to.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Tells when things begin to go wrong, and when they are well again.
    fn tell(&self, failure: Option<&str>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(error, url = self.url, "traces cannot be sent and are lost");
            }
            None if was_failing => tracing::info!(url = self.url, "traces are sent again"),
            _ => {}
        }
    }
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Post").field(&self.url).finish()
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.host)?);
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        // Who waits for this is a thread that knows nothing of sockets and clocks.
        let address = self.address.clone();
        let sent = self.runtime.spawn(async { timeout(LONGEST, send(address, request)).await });
        let late = |_| anyhow!("no answer within {} s", LONGEST.as_secs());
        let answer = sent.await?.map_err(late).flatten();
        match &answer {
            Ok(answer) if answer.status().is_success() => self.tell(None),
            Ok(answer) => self.tell(Some(&format!("the collector answered {}", answer.status()))),
            Err(error) => self.tell(Some(&format!("{error:#}"))),
        }
        Ok(answer?)
    }
}

async fn send((name, port): (String, u16), request: Request<Bytes>) -> Result<Response<Bytes>> {
    let stream = TcpStream::connect((name.as_str(), port)).await.context("no connection")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    // A path is what servers expect; the rest is in the Host header.
    let (mut head, body) = request.into_parts();
    head.uri = head.uri.path().parse()?;
    let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, LARGEST_ANSWER).collect().await;
    driver.abort();
    let body = body.map_err(|error| anyhow!("{error}"))?.to_bytes();
    Ok(Response::from_parts(head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otlp_addresses_are_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let post = |base: &str| Post::new(base, runtime.handle().clone());
        for (base, url, name, port) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces", "localhost", 4318),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces", "localhost", 4318),
            ("http://host/v1/traces", "http://host/v1/traces", "host", 80),
            ("http://[::1]:1/otlp", "http://[::1]:1/otlp/v1/traces", "::1", 1),
        ] {
            let post = post(base).unwrap();
            assert_eq!((post.url(), &post.address), (url, &(name.to_owned(), port)), "{base}");
        }
        for (base, word) in [
            ("https://localhost:4318", "https is not spoken"),
            ("localhost:4318", "http://localhost:4318"),
            ("", "http://localhost:4318"),
            ("http://", "http://localhost:4318"),
            ("http://me:secret@host", "http://localhost:4318"),
            ("ftp://host", "http://localhost:4318"),
        ] {
            let said = post(base).unwrap_err().to_string();
            assert!(said.contains(word), "{base}: {said}");
        }
    }
}
