//! The client without TLS, in builds without the feature `tls`.

use std::io;
use std::pin::Pin;

use tokio::net::TcpStream;

use super::Error;
use super::faults::ByteStream;

#[derive(Clone, Debug)]
pub(super) enum Tls {}

impl Tls {
    pub(super) fn new(_: Option<&[u8]>) -> Result<Self, Error> {
        let message = "https is not part of this build: build it with --features tls";
        Err(Error::Invalid(message.to_owned()))
    }

    pub(super) async fn connect(
        &self,
        _: &str,
        _: TcpStream,
    ) -> io::Result<Pin<Box<dyn ByteStream>>> {
        match *self {}
    }
}
