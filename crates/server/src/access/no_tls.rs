//! Stand-in for TLS in builds without it.

use std::convert::Infallible;
use std::io;
use std::path::Path;

/// TLS configuration, which this build cannot have.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

/// Error of a build without TLS.
#[derive(Debug, thiserror::Error)]
#[error("this wf was built without TLS: build it with --features tls")]
pub struct TlsError;

impl Tls {
    /// Fails, with a message that says how to build with TLS.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn from_files(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError)
    }

    pub(crate) async fn accept<S>(&self, _stream: S) -> io::Result<S> {
        match self.0 {}
    }
}
