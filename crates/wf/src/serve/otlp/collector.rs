//! The HTTP client that sends traces to a collector.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;
use ureq::http::Uri;

/// Path of traces on a collector.
const PATH: &str = "/v1/traces";
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of a response, which carries next to nothing.
const MAX_RESPONSE: u64 = 64 << 10;

/// A collector. Requests block the thread of the exporter, which has nothing else to do.
pub(super) struct Collector {
    url: String,
    agent: Agent,
    /// True if the last request failed, so that an outage is logged once.
    is_failing: AtomicBool,
}

impl Collector {
    /// Creates a client for the collector at `base`, with or without the path of traces.
    pub(super) fn new(base: &str) -> Result<Self> {
        ensure!(
            !base.starts_with("https:"),
            "{base}: https is not supported: use http, to a local collector or a proxy that encrypts"
        );
        let invalid = || anyhow!("{base}: must be an address such as http://localhost:4318");
        let url = format!("{}{PATH}", base.trim_end_matches('/').trim_end_matches(PATH));
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let has_more = authority.as_str().contains('@') || uri.query().is_some();
        ensure!(uri.scheme_str() == Some("http") && !has_more, invalid());
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .build();
        Ok(Self { url, agent: config.into(), is_failing: AtomicBool::new(false) })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Logs the first failure, and the first success after it.
    fn log(&self, failure: Option<&str>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(error, url = self.url, "traces cannot be sent and are dropped");
            }
            None if was_failing => tracing::info!(url = self.url, "traces are sent again"),
            _ => {}
        }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = self.agent.run(request.map(|body| body.to_vec()))?.into_parts();
        let body = body.into_with_config().limit(MAX_RESPONSE).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collector").field(&self.url).finish()
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.send(request);
        match &response {
            Ok(response) if response.status().is_success() => self.log(None),
            Ok(response) => self.log(Some(&format!("status {}", response.status()))),
            Err(error) => self.log(Some(&error.to_string())),
        }
        Ok(response?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otlp_addresses_are_parsed() {
        for (base, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("http://host/v1/traces", "http://host/v1/traces"),
            ("http://[::1]:1/otlp", "http://[::1]:1/otlp/v1/traces"),
        ] {
            assert_eq!(Collector::new(base).unwrap().url(), url, "{base}");
        }
        for (base, word) in [
            ("https://localhost:4318", "https is not supported"),
            ("localhost:4318", "http://localhost:4318"),
            ("", "http://localhost:4318"),
            ("http://", "http://localhost:4318"),
            ("http://me:secret@host", "http://localhost:4318"),
            ("ftp://host", "http://localhost:4318"),
        ] {
            let message = Collector::new(base).unwrap_err().to_string();
            assert!(message.contains(word), "{base}: {message}");
        }
    }
}
