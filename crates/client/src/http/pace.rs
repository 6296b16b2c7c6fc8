//! Connections that behave badly on purpose: what a server has to bear from the world.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::ByteStream;

/// How the bytes of a connection move. By default as fast as they can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// What happens once that many bytes of the answer, its head among them, have been read.
    pub mishap: Option<(u64, Mishap)>,
    /// Send the request one byte at a time, with this pause after each.
    pub send_pause: Option<Duration>,
}

/// What a reader does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Close the connection.
    Drop,
    /// Read nothing for a time, then go on.
    Stall(Duration),
    /// Read one byte at a time from here on, with this pause after each.
    Dribble(Duration),
}

/// A stream of bytes that keeps to a pace.
pub(super) struct Paced {
    stream: Pin<Box<dyn ByteStream>>,
    pace: Pace,
    bytes_read: u64,
    bytes_sent: u64,
    stalled: bool,
    /// When reading and sending go on.
    read_pause: Option<Pin<Box<Sleep>>>,
    send_pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(super) fn new(stream: Pin<Box<dyn ByteStream>>, pace: Pace) -> Self {
        Self {
            stream,
            pace,
            bytes_read: 0,
            bytes_sent: 0,
            stalled: false,
            read_pause: None,
            send_pause: None,
        }
    }

    /// How many bytes may be read now, or the error of a connection that is to be closed.
    fn read_allowance(&mut self) -> io::Result<usize> {
        let Some((at, mishap)) = self.pace.mishap else { return Ok(usize::MAX) };
        if self.bytes_read < at {
            return Ok(usize::try_from(at - self.bytes_read).unwrap_or(usize::MAX));
        }
        match mishap {
            // An answer of which nothing is to be read still has a question before it.
            Mishap::Drop if self.bytes_sent == 0 => Ok(usize::MAX),
            Mishap::Drop => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "closed by us")),
            Mishap::Stall(_) => Ok(usize::MAX),
            Mishap::Dribble(_) => Ok(1),
        }
    }

    /// What to wait for now that `new` bytes have been read.
    fn after_read(&mut self, new: u64) {
        self.bytes_read += new;
        let pause = match self.pace.mishap {
            Some((at, _)) if self.bytes_read < at => return,
            Some((_, Mishap::Stall(pause))) if !self.stalled => pause,
            Some((_, Mishap::Dribble(pause))) => pause,
            _ => return,
        };
        self.stalled = true;
        self.read_pause = Some(Box::pin(sleep_until(Instant::now() + pause)));
    }
}

/// Waits for the end of a pause.
fn rest(pause: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = pause {
        ready!(sleep.as_mut().poll(context));
        *pause = None;
    }
    Poll::Ready(())
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(rest(&mut self.read_pause, context));
        let allowance = self.read_allowance()?.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowance));
        ready!(self.stream.as_mut().poll_read(context, &mut part))?;
        let new = part.filled().len();
        buffer.advance(new);
        self.after_read(new as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(rest(&mut self.send_pause, context));
        let most = if self.pace.send_pause.is_some() { bytes.len().min(1) } else { bytes.len() };
        let sent = ready!(self.stream.as_mut().poll_write(context, &bytes[..most]))?;
        self.bytes_sent += sent as u64;
        if let Some(pause) = self.pace.send_pause {
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

    fn paced(pace: Pace) -> (Paced, DuplexStream) {
        let (ours, theirs) = duplex(1024);
        (Paced::new(Box::pin(ours), pace), theirs)
    }

    fn mishap(at: u64, mishap: Mishap) -> Pace {
        Pace { mishap: Some((at, mishap)), ..Pace::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropper_reads_that_many_bytes_and_no_more() {
        for at in 0..5 {
            let (mut ours, mut theirs) = paced(mishap(at, Mishap::Drop));
            ours.write_all(b"?").await.unwrap();
            theirs.write_all(b"answer").await.unwrap();
            let mut read = Vec::new();
            let error = ours.read_to_end(&mut read).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            assert_eq!(read, b"answer"[..at as usize]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_staller_waits_once_and_misses_nothing() {
        for at in 0..6 {
            let (mut ours, mut theirs) = paced(mishap(at, Mishap::Stall(50 * MS)));
            theirs.write_all(b"answer").await.unwrap();
            drop(theirs);
            let (start, mut read) = (Instant::now(), Vec::new());
            ours.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"answer");
            assert_eq!(start.elapsed().as_millis() / 10, 5, "{at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dribbler_pauses_after_each_byte() {
        let (mut ours, mut theirs) = paced(mishap(2, Mishap::Dribble(10 * MS)));
        theirs.write_all(b"answer").await.unwrap();
        drop(theirs);
        let (start, mut read) = (Instant::now(), Vec::new());
        ours.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"answer");
        // After the two that came at once, and after each of the four others.
        assert!((50..60).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sender_pauses_after_each_byte() {
        let (mut ours, mut theirs) = paced(Pace { send_pause: Some(10 * MS), ..Pace::default() });
        let start = Instant::now();
        ours.write_all(b"question").await.unwrap();
        drop(ours);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"question");
        assert!((70..90).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}
