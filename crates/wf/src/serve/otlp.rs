//! Sends the spans of requests to an OpenTelemetry collector over HTTP.

mod collector;

use std::time::Duration;

use anyhow::{Context, Result};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry};

use collector::Collector;

const SERVICE: &str = "wrinklefree";
/// Time limit for sending the last spans when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts a thread that sends spans in batches to the collector at `url`.
    pub(crate) fn start(url: &str) -> Result<Self> {
        let collector = Collector::new(url).context("--otlp")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(collector.url())
            .with_http_client(collector)
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

    /// Returns a layer that exports the spans of requests and nothing else.
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

    /// Sends the remaining spans. Blocks.
    pub(crate) fn finish(&self) -> Result<()> {
        self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT).context("sending the last traces")
    }
}
