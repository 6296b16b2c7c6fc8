//! What stands in for traces in a build without them.

use std::convert::Infallible;

use anyhow::{Result, bail};
use tokio::runtime::Handle;
use tracing_subscriber::{Layer, Registry};

/// A way to a collector: there is none in this build.
pub(crate) struct Traces(Infallible);

impl Traces {
    /// Always an error, which says how to build what is missing.
    pub(crate) fn start(_url: &str, _runtime: &Handle) -> Result<Self> {
        bail!("--otlp: this wf was built without traces: build it with --features otlp")
    }

    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        match self.0 {}
    }

    pub(crate) fn finish(&self) -> Result<()> {
        match self.0 {}
    }
}
