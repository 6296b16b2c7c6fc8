//! TLS connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use wf_server::{Limits, ServerOptions, Tls, bind, serve};

use crate::support::{app, frontend, options};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(600);
const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// A certificate of its own making, and its key, in files.
struct Pair {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
        Self { folder, certificate: cert.der().clone() }
    }

    /// Reads a certificate and a key from files of the folder.
    fn tls(&self, certificate: &str, key: &str) -> Result<Tls, String> {
        let file = |name: &str| self.folder.path().join(name);
        Tls::from_files(&file(certificate), &file(key)).map_err(|error| error.to_string())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

struct Running {
    address: std::net::SocketAddr,
    signals: mpsc::Sender<()>,
    ended: JoinHandle<()>,
    pair: Pair,
}

async fn start(arrival: Duration) -> Running {
    let pair = Pair::new();
    let bound = bind(([127, 0, 0, 1], 0).into(), None).await.unwrap();
    let address = bound.address().unwrap();
    let (signals, mut receiver) = mpsc::channel(1);
    let options = ServerOptions {
        limits: Limits { read_timeout: arrival, ..Limits::default() },
        tls: Some(pair.tls("cert.pem", "key.pem").unwrap()),
        drain: LONG,
        ..options()
    };
    let ended = tokio::spawn(serve(bound, app(options, frontend()), async move {
        let _ = receiver.recv().await;
    }));
    Running { address, signals, ended, pair }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection of a client that trusts the certificate and nothing else.
    async fn encrypted(&self, version: &'static SupportedProtocolVersion) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.pair.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = "localhost".try_into().unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.connect().await).await.unwrap()
    }

    /// The answer to a request on a connection of its own, which must end as it should.
    async fn ask(&self, version: &'static SupportedProtocolVersion, request: &[u8]) -> String {
        let mut stream = self.encrypted(version).await;
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an end that is announced");
        answer
    }
}

#[tokio::test]
async fn tls_carries_responses_and_streams() {
    let server = start(LONG).await;
    let body = r#"{"prompt": "Once", "max_tokens": 40, "ignore_eos": true, "stream": true}"#;
    let stream = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for version in [&TLS12, &TLS13] {
        let answer = server.ask(version, LIVEZ).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer = server.ask(version, stream.as_bytes()).await;
        assert!(answer.contains("data: [DONE]"), "{answer}");
        let stream = server.encrypted(version).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
}

#[tokio::test]
async fn plain_http_to_a_tls_port_is_closed_and_does_no_harm() {
    let server = start(LONG).await;
    for bytes in [LIVEZ, b"\0\0\0\0", b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = server.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end, too.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    assert!(server.ask(&TLS13, LIVEZ).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_tls_client_that_never_shakes_hands_is_left_and_holds_nobody_up() {
    let server = start(SHORT).await;
    let begun = Instant::now();
    let mut silent = server.connect().await;
    // Who begins and does not go on is no better.
    let mut half = server.connect().await;
    half.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
    assert!(server.ask(&TLS13, LIVEZ).await.starts_with("HTTP/1.1 200"));
    for stream in [&mut silent, &mut half] {
        let read = stream.read_to_end(&mut Vec::new()).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stopping_server_waits_for_no_tls_handshake() {
    let server = start(LONG).await;
    let mut silent = server.connect().await;
    // Connections are taken in the order in which they come.
    assert!(server.ask(&TLS13, LIVEZ).await.starts_with("HTTP/1.1 200"));
    server.signals.send(()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), server.ended).await;
    ended.expect("long before a handshake is out of time").unwrap();
    let read = silent.read_to_end(&mut Vec::new()).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[test]
fn invalid_tls_files_are_named() {
    let pair = Pair::new();
    let key = std::fs::read_to_string(pair.folder.path().join("key.pem")).unwrap();
    pair.write("empty.pem", "");
    pair.write("other-key.pem", &KeyPair::generate().unwrap().serialize_pem());
    pair.write("locked.pem", &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"));
    pair.write("cut-key.pem", &key[..key.len() / 2]);
    pair.write("cut-cert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    for (certificate, private, file, what) in [
        ("absent.pem", "key.pem", "absent.pem", "No such file"),
        ("cert.pem", "absent.pem", "absent.pem", "No such file"),
        ("empty.pem", "key.pem", "empty.pem", "BEGIN CERTIFICATE"),
        ("key.pem", "key.pem", "key.pem", "BEGIN CERTIFICATE"),
        ("cut-cert.pem", "key.pem", "cut-cert.pem", "truncated"),
        ("cert.pem", "empty.pem", "empty.pem", "BEGIN PRIVATE KEY"),
        ("cert.pem", "cert.pem", "cert.pem", "BEGIN PRIVATE KEY"),
        ("cert.pem", "locked.pem", "locked.pem", "passphrase"),
        ("cert.pem", "cut-key.pem", "cut-key.pem", "not valid PEM"),
        ("cert.pem", "other-key.pem", "other-key.pem", "KeyMismatch"),
    ] {
        let message = pair.tls(certificate, private).unwrap_err();
        assert!(
            message.contains(file) && message.contains(what),
            "{certificate}, {private}: {message}"
        );
        let secret = key.lines().nth(1).unwrap();
        assert!(!message.contains(secret), "a key is a secret: {message}");
    }
}
