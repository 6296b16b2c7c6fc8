//! What stands in for encrypted connections in a build without them.

use std::convert::Infallible;
use std::io;
use std::path::Path;

/// Who the server is, and how it proves that: nothing can, in this build.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
#[error("this wf was built without TLS: build it with --features tls")]
pub struct TlsError;

impl Tls {
    /// Always an error, which says how to build what is missing.
    pub fn from_files(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError)
    }

    pub(crate) async fn accept<S>(&self, _stream: S) -> io::Result<S> {
        match self.0 {}
    }
}
