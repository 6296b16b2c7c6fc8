//! Bind, serve, stop gently.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::app::{App, is_on};
use crate::options::Limits;
use crate::router;
use crate::stall::StallGuard;
use crate::tls::Tls;

/// How long a listener that is out of file descriptors waits for others to be closed.
const PAUSE: Duration = Duration::from_millis(50);
/// How long replies have to say that they were cut short.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// After how long a peer that acknowledges nothing is given up.
#[cfg(target_os = "linux")]
const SILENCE: Duration = Duration::from_secs(45);

/// Where the server listens.
pub enum Bound {
    /// On an address.
    Tcp(TcpListener),
    /// On a socket in the file system, which is removed at the end.
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

/// Listens on a path, or else on an address.
pub async fn bind(address: SocketAddr, path: Option<PathBuf>) -> io::Result<Bound> {
    match path {
        #[cfg(unix)]
        Some(path) => {
            // One that nobody listens on any more is in the way.
            if std::os::unix::net::UnixStream::connect(&path).is_err() {
                remove_socket(&path);
            }
            Ok(Bound::Unix(UnixListener::bind(&path)?, path))
        }
        #[cfg(not(unix))]
        Some(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "no such sockets here")),
        None => Ok(Bound::Tcp(TcpListener::bind(address).await?)),
    }
}

#[cfg(unix)]
fn remove_socket(path: &std::path::Path) {
    use std::os::unix::fs::FileTypeExt;
    if std::fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket()) {
        // If it cannot be removed, binding says why.
        let _ = std::fs::remove_file(path);
    }
}

impl Bound {
    /// The address, where there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Self::Unix(_, path) = self {
            remove_socket(path);
        }
    }
}

/// Serves until `stop`, and then until all replies are written or out of time.
pub async fn serve(bound: Bound, app: App, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let connections = Connections::new(&app);
    let mut drained = None;
    loop {
        tokio::select! {
            accepted = connections.accept(&bound) => match accepted {
                Ok((stream, place)) => connections.take(stream, place),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            },
            () = stop.as_mut(), if drained.is_none() => {
                tracing::info!(replies = app.in_flight.list().len(), "stopping");
                app.start_draining();
                connections.end.send_replace(true);
                drained = Some(Box::pin(connections.drained(app.options.drain)));
            }
            () = wait_for(drained.as_mut()) => break,
        }
    }
    app.stop_replies();
    connections.drained(LAST_WORDS).await;
}

/// Waits for something, or for ever if there is nothing to wait for.
async fn wait_for(what: Option<&mut Pin<Box<impl Future<Output = ()>>>>) {
    match what {
        Some(what) => what.await,
        None => std::future::pending().await,
    }
}

type Stream = Box<dyn Connection>;

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

async fn accept(bound: &Bound) -> io::Result<Stream> {
    match bound {
        Bound::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Tokens are small and must not wait for more of them.
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(SILENCE))?;
            Ok(Box::new(stream))
        }
        #[cfg(unix)]
        Bound::Unix(listener, _) => Ok(Box::new(listener.accept().await?.0)),
    }
}

/// All connections.
struct Connections {
    router: Router,
    limits: Limits,
    tls: Option<Tls>,
    room: Arc<Semaphore>,
    /// True once connections must end with what they are doing.
    end: watch::Sender<bool>,
}

impl Connections {
    fn new(app: &App) -> Self {
        let limits = app.options.limits;
        let room = Arc::new(Semaphore::new(limits.connections));
        let tls = app.options.tls.clone();
        Self { router: router(app), limits, tls, room, end: watch::Sender::new(false) }
    }

    /// The next connection, once there is room for it.
    async fn accept(&self, bound: &Bound) -> io::Result<(Stream, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.room).acquire_owned().await.map_err(io::Error::other)?;
        Ok((accept(bound).await?, place))
    }

    /// Serves a connection, in a task of its own: who is slow to begin holds nobody up.
    fn take(&self, stream: Stream, place: OwnedSemaphorePermit) {
        let (router, limits, tls) = (self.router.clone(), self.limits, self.tls.clone());
        let mut end = self.end.subscribe();
        tokio::spawn(async move {
            let _place = place;
            let stream = match tls {
                None => Ok(stream),
                Some(tls) => encrypt(&tls, stream, limits.arrival, &mut end).await,
            };
            match stream {
                Ok(stream) => talk(stream, router, &limits, end).await,
                Err(error) => tracing::debug!(%error, "a connection could not be encrypted"),
            }
        });
    }

    /// Waits until there are no connections, but not longer than told.
    fn drained(&self, longest: Duration) -> impl Future<Output = ()> + use<> {
        let (end, until) = (self.end.clone(), Instant::now() + longest);
        async move {
            // Every connection listens to this for as long as it lives. Whether all are gone or the
            // time is up makes no difference here.
            let _ = timeout_at(until, end.closed()).await;
        }
    }
}

/// The same connection after its handshake. A server that is told to stop waits for none: nobody has
/// asked anything yet.
async fn encrypt(
    tls: &Tls,
    stream: Stream,
    longest: Duration,
    end: &mut watch::Receiver<bool>,
) -> io::Result<Stream> {
    let is_late = *end.borrow();
    tokio::select! {
        shaken = timeout(longest, tls.accept(stream)) => Ok(Box::new(shaken??)),
        () = is_on(end), if !is_late => Err(io::Error::other("the server stops")),
    }
}

/// Answers all requests of a connection.
async fn talk(stream: Stream, router: Router, limits: &Limits, mut end: watch::Receiver<bool>) {
    // Who comes while the server stops is answered once, to be told so.
    let is_late = *end.borrow();
    let io = TokioIo::new(StallGuard::new(stream, limits.stall));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(!is_late)
        .header_read_timeout(limits.arrival)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes)
        .serve_connection(io, TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = is_on(&mut end), if !is_late => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
