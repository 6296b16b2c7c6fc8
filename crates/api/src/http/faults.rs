//! Fault injection: connections that misbehave on purpose, to test servers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection of any kind.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> ByteStream for T {}

/// Faults of a connection. There are none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Fault after so many bytes of the response, its head included.
    pub read_fault: Option<(u64, ReadFault)>,
    /// Sends the request one byte at a time, with this pause after each.
    pub send_pause: Option<Duration>,
}

/// Fault of a client that reads a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// Closes the connection.
    Drop,
    /// Reads nothing for some time, then continues.
    Stall(Duration),
    /// Reads one byte at a time from here on, with this pause after each.
    Dribble(Duration),
}

/// A connection with faults.
pub(super) struct FaultyStream {
    stream: Pin<Box<dyn ByteStream>>,
    faults: Faults,
    bytes_read: u64,
    bytes_sent: u64,
    stalled: bool,
    /// Running while reading or sending is paused.
    read_pause: Option<Pin<Box<Sleep>>>,
    send_pause: Option<Pin<Box<Sleep>>>,
}

impl FaultyStream {
    pub(super) fn new(stream: Pin<Box<dyn ByteStream>>, faults: Faults) -> Self {
        Self {
            stream,
            faults,
            bytes_read: 0,
            bytes_sent: 0,
            stalled: false,
            read_pause: None,
            send_pause: None,
        }
    }

    /// Returns the number of bytes that may be read now, or the error of a connection to be closed.
    fn read_allowance(&mut self) -> io::Result<usize> {
        let Some((at, read_fault)) = self.faults.read_fault else { return Ok(usize::MAX) };
        if self.bytes_read < at {
            return Ok(usize::try_from(at - self.bytes_read).unwrap_or(usize::MAX));
        }
        match read_fault {
            // The request is sent even if nothing of the response is to be read.
            ReadFault::Drop if self.bytes_sent == 0 => Ok(usize::MAX),
            ReadFault::Drop => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "closed by fault injection"))
            }
            ReadFault::Stall(_) => Ok(usize::MAX),
            ReadFault::Dribble(_) => Ok(1),
        }
    }

    /// Starts the pause that follows `new` bytes.
    fn after_read(&mut self, new: u64) {
        self.bytes_read += new;
        let pause = match self.faults.read_fault {
            Some((at, _)) if self.bytes_read < at => return,
            Some((_, ReadFault::Stall(pause))) if !self.stalled => pause,
            Some((_, ReadFault::Dribble(pause))) => pause,
            _ => return,
        };
        self.stalled = true;
        self.read_pause = Some(Box::pin(sleep_until(Instant::now() + pause)));
    }
}

/// Waits for the end of a pause.
fn poll_pause(pause: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = pause {
        ready!(sleep.as_mut().poll(context));
        *pause = None;
    }
    Poll::Ready(())
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(poll_pause(&mut self.read_pause, context));
        let allowance = self.read_allowance()?.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowance));
        ready!(self.stream.as_mut().poll_read(context, &mut part))?;
        let new = part.filled().len();
        buffer.advance(new);
        self.after_read(new as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(poll_pause(&mut self.send_pause, context));
        let max = if self.faults.send_pause.is_some() { bytes.len().min(1) } else { bytes.len() };
        let sent = ready!(self.stream.as_mut().poll_write(context, &bytes[..max]))?;
        self.bytes_sent += sent as u64;
        if let Some(pause) = self.faults.send_pause {
            self.send_pause = Some(Box::pin(sleep_until(Instant::now() + pause)));
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn faulty(faults: Faults) -> (FaultyStream, DuplexStream) {
        let (ours, theirs) = duplex(1024);
        (FaultyStream::new(Box::pin(ours), faults), theirs)
    }

    fn read_fault(at: u64, read_fault: ReadFault) -> Faults {
        Faults { read_fault: Some((at, read_fault)), ..Faults::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn drop_closes_after_so_many_bytes() {
        for at in 0..5 {
            let (mut ours, mut theirs) = faulty(read_fault(at, ReadFault::Drop));
            ours.write_all(b"?").await.unwrap();
            theirs.write_all(b"answer").await.unwrap();
            let mut read = Vec::new();
            let error = ours.read_to_end(&mut read).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            assert_eq!(read, b"answer"[..at as usize]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stall_pauses_once_and_loses_nothing() {
        for at in 0..6 {
            let (mut ours, mut theirs) = faulty(read_fault(at, ReadFault::Stall(50 * MS)));
            theirs.write_all(b"answer").await.unwrap();
            drop(theirs);
            let (start, mut read) = (Instant::now(), Vec::new());
            ours.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"answer");
            assert_eq!(start.elapsed().as_millis() / 10, 5, "{at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dribble_pauses_after_each_byte() {
        let (mut ours, mut theirs) = faulty(read_fault(2, ReadFault::Dribble(10 * MS)));
        theirs.write_all(b"answer").await.unwrap();
        drop(theirs);
        let (start, mut read) = (Instant::now(), Vec::new());
        ours.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"answer");
        // One pause after the first two bytes, and one after each of the four others.
        assert!((50..60).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_send_pauses_after_each_byte() {
        let (mut ours, mut theirs) =
            faulty(Faults { send_pause: Some(10 * MS), ..Faults::default() });
        let start = Instant::now();
        ours.write_all(b"question").await.unwrap();
        drop(ours);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"question");
        assert!((70..90).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}
