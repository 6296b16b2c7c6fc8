//! TLS: a certificate and its private key from PEM files, and the handshake.

use std::fmt;
use std::io;
use std::path::Path;
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

/// Error in the TLS configuration: the file at fault, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn new(file: &Path, what: impl fmt::Display) -> Self {
        Self(format!("{}: {what}", file.display()))
    }
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
        let pair = |error: rustls::Error| {
            let (certificate, key) = (certificate.display(), key.display());
            TlsError(format!("{certificate} does not match the key {key}: {error}"))
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
            .map_err(pair)?;
        // Clients that speak HTTP/2 only fail in the handshake.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

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
    std::fs::read(file).map_err(|error| TlsError::new(file, error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(TlsError::new(file, NO_CERTIFICATE)),
        Ok(chain) => Ok(chain),
        // The library's message is a list of bytes.
        Err(pem::Error::MissingSectionEnd { .. }) => {
            Err(TlsError::new(file, "the file is truncated: a PEM section does not end"))
        }
        Err(error) => Err(TlsError::new(file, format_args!("invalid PEM: {error}"))),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let has_passphrase = text.windows(9).any(|word| word == b"ENCRYPTED");
        let what = match error {
            _ if has_passphrase => LOCKED_KEY,
            pem::Error::NoItemsFound => NO_KEY,
            // The file is secret, so nothing of it is quoted.
            _ => "the private key is not valid PEM",
        };
        TlsError::new(file, what)
    })
}
