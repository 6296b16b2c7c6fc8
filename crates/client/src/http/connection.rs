//! One connection: a request goes, an answer comes.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::address::Address;
use super::pace::{Pace, Paced};
use super::{Error, Timeouts};

/// The most bytes taken of an answer that is read as a whole.
const LARGEST_ANSWER: usize = 256 << 20;

/// The most bytes taken of an answer that is an error.
const LARGEST_ERROR: usize = 64 << 10;

/// What the system takes in for a slow reader.
const SLOW_BUFFER: u32 = 4096;

/// Sends `request` on a new connection. An answer that is an error is returned as one.
pub(super) async fn ask(
    address: &Address,
    request: Request<Bytes>,
    timeouts: Timeouts,
    pace: Pace,
) -> Result<Answer, Error> {
    let stream = match timeout(timeouts.connect, connect(address, pace)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(Error::Connect { address: address.to_string(), source }),
        Err(_) => return Err(Error::Timeout { what: "no connection", after: timeouts.connect }),
    };
    let io = TokioIo::new(Paced::new(stream, pace));
    let (mut sender, connection) = http1::handshake(io).await.map_err(Error::Broken)?;
    let driver = Driver(tokio::spawn(async move {
        // What goes wrong is told to whoever reads the answer.
        let _ = connection.await;
    }));
    let response = timeout(timeouts.answer, sender.send_request(request.map(Full::new)));
    let response = match response.await {
        Ok(response) => response.map_err(Error::Broken)?,
        Err(_) => return Err(Error::Timeout { what: "no answer", after: timeouts.answer }),
    };
    let answer = Answer { response, silence: timeouts.silence, _driver: driver };
    if answer.response.status().is_success() { Ok(answer) } else { Err(answer.refusal().await) }
}

/// Ends the task that moves a connection's bytes, and with it the connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer that has begun. Dropping it closes the connection.
pub(super) struct Answer {
    response: Response<Incoming>,
    silence: Duration,
    _driver: Driver,
}

impl Answer {
    /// The next bytes of the body, or none at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = timeout(self.silence, self.response.body_mut().frame()).await;
            let frame =
                frame.map_err(|_| Error::Timeout { what: "no more bytes", after: self.silence })?;
            match frame {
                None => return Ok(None),
                // A frame that is no data is trailers, which say nothing here.
                Some(frame) => match frame.map_err(Error::Broken)?.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// All of the body.
    pub(super) async fn whole(mut self) -> Result<Bytes, Error> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if whole.len() + bytes.len() > LARGEST_ANSWER {
                return Err(Error::TooLarge { limit: LARGEST_ANSWER });
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.into())
    }

    /// What the server says it does not like.
    async fn refusal(mut self) -> Error {
        let status = self.response.status().as_u16();
        let retry_after = retry_after(self.response.headers());
        let mut body = Vec::new();
        // The status is worth telling even where the words behind it do not come.
        while let Ok(Some(bytes)) = self.next().await {
            body.extend_from_slice(&bytes);
            if body.len() > LARGEST_ERROR {
                break;
            }
        }
        Error::of_status(status, &body, retry_after)
    }
}

/// Servers that serve models write seconds; a date, the other form, is left alone.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// What bytes go over.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> ByteStream for T {}

async fn connect(address: &Address, pace: Pace) -> io::Result<Pin<Box<dyn ByteStream>>> {
    match address {
        Address::Tcp { host, port, .. } => {
            let stream = connect_tcp(host, *port, pace).await?;
            stream.set_nodelay(true)?;
            Ok(Box::pin(stream))
        }
        #[cfg(unix)]
        Address::Unix(path) => Ok(Box::pin(tokio::net::UnixStream::connect(path).await?)),
    }
}

async fn connect_tcp(host: &str, port: u16, pace: Pace) -> io::Result<TcpStream> {
    // A literal IPv6 address has brackets in a URL alone.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if pace.mishap.is_none() {
        return TcpStream::connect((host, port)).await;
    }
    let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = lookup_host((host, port)).await?.next().ok_or_else(no_address)?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A slow reader is one for the server only when the system does not read for it.
    socket.set_recv_buffer_size(SLOW_BUFFER)?;
    socket.connect(address).await
}
