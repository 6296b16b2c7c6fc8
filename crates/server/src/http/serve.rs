//! Listens, serves connections, and shuts down gracefully.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::fault::FaultBodies;
use super::idle::{HeadGuard, Requests, RunningBody};
use super::stall::StallGuard;
use crate::access::{Peer, Tls};
use crate::app::{App, is_on};
use crate::observe::history::History;
use crate::options::Limits;

/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Time for streams to send their last event after they were cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// Time after which a peer that acknowledges no data is disconnected.
#[cfg(target_os = "linux")]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(45);

/// A bound socket.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, and its file if that is to be removed on drop.
    #[cfg(unix)]
    Unix(UnixListener, Option<PathBuf>),
}

/// Binds a Unix socket if a path is given, or else a TCP address.
///
/// # Errors
///
/// Fails if the address or path is in use or not permitted.
pub async fn bind(address: SocketAddr, path: Option<PathBuf>) -> io::Result<Listener> {
    match path {
        #[cfg(unix)]
        Some(path) => {
            // A socket that nobody listens on is left over from a crash.
            if std::os::unix::net::UnixStream::connect(&path).is_err() {
                remove_socket(&path);
            }
            Ok(Listener::Unix(UnixListener::bind(&path)?, Some(path)))
        }
        #[cfg(not(unix))]
        Some(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "no such sockets here")),
        None => Ok(Listener::Tcp(TcpListener::bind(address).await?)),
    }
}

#[cfg(unix)]
fn remove_socket(path: &std::path::Path) {
    use std::os::unix::fs::FileTypeExt;
    if std::fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket()) {
        // If this fails, binding reports why.
        let _ = std::fs::remove_file(path);
    }
}

impl Listener {
    /// Adopts a TCP socket that listens already.
    ///
    /// # Errors
    ///
    /// Fails if the system does.
    pub fn from_tcp(socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(socket)?))
    }

    /// Adopts a Unix socket that listens already. Its file stays.
    ///
    /// # Errors
    ///
    /// Fails if the system does.
    #[cfg(unix)]
    pub fn from_unix(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self::Unix(UnixListener::from_std(socket)?, None))
    }

    /// Returns the path of a Unix socket.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Tcp(_) => None,
            #[cfg(unix)]
            Self::Unix(listener, _) => Some(listener.local_addr().ok()?.as_pathname()?.to_owned()),
        }
    }

    /// Returns the address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Self::Unix(_, Some(path)) = self {
            remove_socket(path);
        }
    }
}

/// Serves until `stop` resolves, and then until all responses are sent or the drain timeout has passed.
pub(crate) async fn serve(
    bound: Listener,
    app: App,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let connections = Connections::new(&app, router);
    let mut drained = None;
    let mut sampling = History::clock();
    loop {
        tokio::select! {
            accepted = connections.accept(&bound) => match accepted {
                Ok((stream, peer, permit)) => connections.spawn(stream, peer, permit),
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    sleep(ACCEPT_RETRY).await;
                }
            },
            _ = sampling.tick() => app.sample(),
            () = stop.as_mut(), if drained.is_none() => {
                tracing::info!(in_flight = app.in_flight.list().len(), "shutting down");
                app.start_draining();
                connections.end.send_replace(true);
                drained = Some(Box::pin(connections.drained(app.options.drain)));
            }
            () = async { if let Some(drained) = &mut drained { drained.await } },
                if drained.is_some() => break,
        }
    }
    app.cancel_sequences();
    connections.drained(CANCEL_GRACE).await;
}

type Stream = Box<dyn Connection>;

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

async fn accept(bound: &Listener) -> io::Result<(Stream, Peer)> {
    match bound {
        Listener::Tcp(listener) => {
            let (stream, address) = listener.accept().await?;
            // Tokens are small and must not wait for more of them.
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
            Ok((Box::new(stream), Peer::new(address.ip())))
        }
        #[cfg(unix)]
        Listener::Unix(listener, _) => Ok((Box::new(listener.accept().await?.0), Peer::default())),
    }
}

/// The open connections.
struct Connections {
    router: Router,
    limits: Limits,
    tls: Option<Tls>,
    permits: Arc<Semaphore>,
    /// True once connections must close after their current request.
    end: watch::Sender<bool>,
}

impl Connections {
    fn new(app: &App, router: Router) -> Self {
        let limits = app.options.limits;
        let permits = Arc::new(Semaphore::new(limits.connections));
        let tls = app.options.tls.clone();
        Self { router, limits, tls, permits, end: watch::Sender::new(false) }
    }

    /// Accepts the next connection, once the limit permits one more.
    async fn accept(&self, bound: &Listener) -> io::Result<(Stream, Peer, OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, peer) = accept(bound).await?;
        Ok((stream, peer, permit))
    }

    /// Serves a connection in a task of its own, so that a slow handshake delays no other.
    fn spawn(&self, stream: Stream, peer: Peer, permit: OwnedSemaphorePermit) {
        let (router, limits, tls) = (self.router.clone(), self.limits, self.tls.clone());
        let mut end = self.end.subscribe();
        tokio::spawn(async move {
            let _permit = permit;
            let stream = match tls {
                None => Ok(stream),
                Some(tls) => encrypt(&tls, stream, limits.read_timeout, &mut end).await,
            };
            match stream {
                Ok(stream) => serve_connection(stream, peer, router, &limits, end).await,
                Err(error) => tracing::debug!(%error, "TLS handshake failed"),
            }
        });
    }

    /// Waits until all connections are closed, for at most `timeout`.
    fn drained(&self, timeout: Duration) -> impl Future<Output = ()> + use<> {
        let (end, until) = (self.end.clone(), Instant::now() + timeout);
        async move {
            // Every connection holds a receiver for as long as it lives.
            let _ = timeout_at(until, end.closed()).await;
        }
    }
}

/// Performs the TLS handshake. A server that shuts down does not wait for it: there is no request yet.
async fn encrypt(
    tls: &Tls,
    stream: Stream,
    limit: Duration,
    end: &mut watch::Receiver<bool>,
) -> io::Result<Stream> {
    let is_late = *end.borrow();
    tokio::select! {
        shaken = timeout(limit, tls.accept(stream)) => Ok(Box::new(shaken??)),
        () = is_on(end), if !is_late => Err(io::Error::other("the server is shutting down")),
    }
}

async fn serve_connection(
    stream: Stream,
    peer: Peer,
    router: Router,
    limits: &Limits,
    mut end: watch::Receiver<bool>,
) {
    // A connection accepted during shutdown gets one response, which says so.
    let is_late = *end.borrow();
    let requests = Requests::default();
    let (receiver, sender) = tokio::io::split(stream);
    let receiver = HeadGuard::new(receiver, requests.clone(), limits.read_timeout);
    let sender = StallGuard::new(FaultBodies::new(sender), limits.write_timeout);
    let io = TokioIo::new(tokio::io::join(receiver, sender));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let running = requests.start();
        let response = router.call(request);
        async move {
            let response: Response<Body> = response.await?;
            Ok::<_, Infallible>(response.map(|body| RunningBody { body, _request: running }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(!is_late)
        // A head that has begun has the limit of `HeadGuard`.
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_len)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = is_on(&mut end), if !is_late => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection closed with an error");
    }
}
