//! TLS of the client: the server's certificate must be signed by an authority that browsers trust, or by one
//! that the caller adds.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

use super::Error;
use super::faults::ByteStream;

/// Authorities that sign the certificates of servers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the authorities that browsers trust, and those of `extra`, in PEM.
    pub(super) fn new(extra: Option<&[u8]>) -> Result<Self, Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(pem) = extra {
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let certificates = certificates.map_err(|error| Error::Invalid(error.to_string()))?;
            if certificates.is_empty() {
                let message = "contains no certificate: expected PEM with BEGIN CERTIFICATE";
                return Err(Error::Invalid(message.to_owned()));
            }
            for certificate in certificates {
                roots.add(certificate).map_err(|error| Error::Invalid(error.to_string()))?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(config).into()))
    }

    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<Pin<Box<dyn ByteStream>>> {
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "not a valid host name");
        let name = ServerName::try_from(host.to_owned()).map_err(invalid)?;
        let stream = self.0.connect(name, stream).await.map_err(explain)?;
        Ok(Box::pin(stream))
    }
}

/// Adds what to do about a certificate that nobody known has signed.
fn explain(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            io::Error::other(
                "no known authority signed the server's certificate: add that authority with --ca-cert",
            )
        }
        _ => error,
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
