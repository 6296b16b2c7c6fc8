//! Encrypted connections: a certificate and its key from files, and the handshake.

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

/// Who the server is, and how it proves that. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {what}", file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Two files of which each is fine, but not the two together.
    #[error("{} with the key of {}: {source}", certificate.display(), key.display())]
    Pair {
        /// The file of certificates.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
}

const NO_CERTIFICATE: &str = "no certificate is in it: PEM is needed, with BEGIN CERTIFICATE";
const NO_KEY: &str = "no private key is in it: PEM is needed, with BEGIN PRIVATE KEY, BEGIN RSA \
                      PRIVATE KEY or BEGIN EC PRIVATE KEY";
const LOCKED_KEY: &str = "the private key has a passphrase: one without is needed";

impl Tls {
    /// A certificate, with those that vouch for it behind it, and its private key, all in PEM.
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
        // Who asks for HTTP/2 alone is told at once that there is none.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// The handshake.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    /// Nothing of the key.
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
            // The library prints a list of numbers.
            pem::Error::MissingSectionEnd { .. } => {
                "a part begins and does not end: the file is cut short".to_owned()
            }
            error => format!("a certificate is not sound PEM: {error}"),
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
            // Of what is in the file, nothing: it is a secret.
            _ => "the private key is not sound PEM".to_owned(),
        };
        TlsError::Content { file: file.to_owned(), what }
    })
}
