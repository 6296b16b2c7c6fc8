//! One connection: sends a request and receives the response.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::address::Address;
use super::faults::{ByteStream, Faults, FaultyStream};
use super::tls::Tls;
use super::{Error, Timeouts};

/// Maximum length in bytes of a body that is read as a whole.
const MAX_BODY_LEN: usize = 256 << 20;

/// Maximum length in bytes of the body of an error.
const MAX_ERROR_LEN: usize = 64 << 10;

/// Receive buffer of connections with read faults, in bytes.
const SLOW_BUFFER_LEN: u32 = 4096;

/// Sends a request on a new connection. A status other than success is an error.
pub(super) async fn send(
    (address, tls): (&Address, Option<&Tls>),
    request: Request<Bytes>,
    timeouts: Timeouts,
    faults: Faults,
) -> Result<ResponseBody, Error> {
    let stream = match timeout(timeouts.connect, connect(address, tls, faults)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(Error::Connect(address.to_string(), source)),
        Err(_) => return Err(Error::Timeout("connecting", timeouts.connect)),
    };
    let io = TokioIo::new(FaultyStream::new(stream, faults));
    let (mut sender, connection) = http1::handshake(io).await.map_err(Error::Connection)?;
    let driver = Driver(tokio::spawn(async move {
        // Errors are reported to the reader of the response.
        let _ = connection.await;
    }));
    let response = timeout(timeouts.response, sender.send_request(request.map(Full::new)));
    let response = match response.await {
        Ok(response) => response.map_err(Error::Connection)?,
        Err(_) => return Err(Error::Timeout("waiting for the response", timeouts.response)),
    };
    let body = ResponseBody { response, idle: timeouts.idle, _driver: driver };
    if body.response.status().is_success() { Ok(body) } else { Err(body.into_error().await) }
}

/// Ends the task that drives a connection, and thereby closes the connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A response whose body is still to be read. Dropping it closes the connection.
pub(super) struct ResponseBody {
    response: Response<Incoming>,
    idle: Duration,
    _driver: Driver,
}

impl ResponseBody {
    /// Returns the next bytes of the body, or `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = timeout(self.idle, self.response.body_mut().frame()).await;
            let frame = frame.map_err(|_| Error::Timeout("reading the response", self.idle))?;
            match frame {
                None => return Ok(None),
                // Other frames are trailers, which are not used.
                Some(frame) => match frame.map_err(Error::Connection)?.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// Reads the whole body.
    pub(super) async fn read(mut self) -> Result<Bytes, Error> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next().await? {
            if body.len() + bytes.len() > MAX_BODY_LEN {
                return Err(Error::TooLarge(MAX_BODY_LEN));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body.into())
    }

    /// Reads the body of an error.
    async fn into_error(mut self) -> Error {
        let status = self.response.status().as_u16();
        let retry_after = retry_after(self.response.headers());
        let mut body = Vec::new();
        // The status is reported even if the body cannot be read.
        while let Ok(Some(bytes)) = self.next().await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR_LEN {
                break;
            }
        }
        Error::from_status(status, &body, retry_after)
    }
}

/// Returns the delay in seconds; the other format, a date, is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn connect(
    address: &Address,
    tls: Option<&Tls>,
    faults: Faults,
) -> io::Result<Pin<Box<dyn ByteStream>>> {
    match address {
        Address::Tcp { host, port, .. } => {
            // A literal IPv6 address has brackets in URLs only.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = connect_tcp(host, *port, faults).await?;
            stream.set_nodelay(true)?;
            match tls {
                Some(tls) => tls.connect(host, stream).await,
                None => Ok(Box::pin(stream)),
            }
        }
        #[cfg(unix)]
        Address::Unix(path) => Ok(Box::pin(tokio::net::UnixStream::connect(path).await?)),
    }
}

async fn connect_tcp(host: &str, port: u16, faults: Faults) -> io::Result<TcpStream> {
    if faults.read_fault.is_none() {
        return TcpStream::connect((host, port)).await;
    }
    let no_address = || io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    let address = lookup_host((host, port)).await?.next().ok_or_else(no_address)?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // With a large buffer the system would read on for a client that does not.
    socket.set_recv_buffer_size(SLOW_BUFFER_LEN)?;
    socket.connect(address).await
}
