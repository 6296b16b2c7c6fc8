//! Traces: the spans of requests, sent to an OpenTelemetry collector over HTTP.

mod post;

use std::time::Duration;

use anyhow::{Context, Result};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry};

use post::Post;

/// What collectors know this program as.
const SERVICE: &str = "wrinklefree";
/// How long the last spans may take when the server has stopped.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A way to a collector.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Sends to the collector at `url` from a thread of its own, in batches. Bytes move on
    /// `runtime`, which has to outlive this.
    pub(crate) fn start(url: &str, runtime: &Handle) -> Result<Self> {
        let post = Post::new(url, runtime.clone()).context("--otlp")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(post.url())
            .with_http_client(post)
            .build()
            .with_context(|| format!("--otlp is {url}"))?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty().with_service_name(SERVICE).with_attribute(version);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Self(provider))
    }

    /// Takes the spans of requests, and nothing else that is logged.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(wf_server::SPANS, LevelFilter::TRACE))
            .boxed()
    }

    /// Sends what is left. Blocks.
    pub(crate) fn finish(&self) -> Result<()> {
        self.0.shutdown_with_timeout(LAST_WORDS).context("sending the last traces")
    }
}
