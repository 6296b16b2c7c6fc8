//! Placeholder for builds without the feature `otlp`.

use std::convert::Infallible;

use anyhow::{Result, bail};
use tracing_subscriber::{Layer, Registry};

/// An exporter of traces, which this build does not have.
pub(crate) struct Traces(Infallible);

impl Traces {
    /// Returns an error that says how to enable traces.
    pub(crate) fn start(_url: &str) -> Result<Self> {
        bail!("--otlp: wf was built without traces: build it with --features otlp")
    }

    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        match self.0 {}
    }

    pub(crate) fn finish(&self) -> Result<()> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_how_to_enable_traces() {
        let error = Traces::start("http://127.0.0.1:4318").err().expect("an error");
        assert!(error.to_string().contains("build it with --features otlp"), "{error}");
    }
}
