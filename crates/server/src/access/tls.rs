//! TLS: a certificate and its private key from PEM files, and the handshake.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The server's certificate and private key. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Error in the TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file does not hold what is expected.
    #[error("{}: {what}", file.display())]
    Content {
        /// Path of the file.
        file: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// Certificate and key do not belong together.
    #[error("{} does not match the key {}: {source}", certificate.display(), key.display())]
    Pair {
        /// Path of the certificate file.
        certificate: PathBuf,
        /// Path of the key file.
        key: PathBuf,
        /// The TLS library's error.
        source: rustls::Error,
    },
}

const NO_CERTIFICATE: &str = "contains no certificate: expected PEM with BEGIN CERTIFICATE";
const NO_KEY: &str = "contains no private key: expected PEM with BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY \
                      or BEGIN EC PRIVATE KEY";
const LOCKED_KEY: &str = "the private key is encrypted: expected one without a passphrase";

impl Tls {
    /// Reads a certificate chain and its private key, both in PEM.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or parsed, or if the key is not the certificate's.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let private = private_key(key)?;
        let pair = |source| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
            .map_err(pair)?;
        // Clients that speak HTTP/2 only fail in the handshake.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// Performs the handshake.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    /// Prints nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Read { file: file.to_owned(), source })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |what: String| TlsError::Content { file: file.to_owned(), what };
    let text = read(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| {
        wrong(match error {
            // The library's message is a list of bytes.
            pem::Error::MissingSectionEnd { .. } => {
                "the file is truncated: a PEM section does not end".to_owned()
            }
            error => format!("invalid PEM: {error}"),
        })
    })?;
    if chain.is_empty() { Err(wrong(NO_CERTIFICATE.to_owned())) } else { Ok(chain) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let has_passphrase = text.windows(9).any(|word| word == b"ENCRYPTED");
        let what = match error {
            _ if has_passphrase => LOCKED_KEY.to_owned(),
            pem::Error::NoItemsFound => NO_KEY.to_owned(),
            // The file is secret, so nothing of it is quoted.
            _ => "the private key is not valid PEM".to_owned(),
        };
        TlsError::Content { file: file.to_owned(), what }
    })
}
