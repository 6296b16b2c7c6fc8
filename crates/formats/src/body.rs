//! The data of the tensors in a file, written piece by piece.

use std::io::{self, Read, Write};

use crate::error::invalid;
use crate::size;

/// Writes the data of tensors, in the order in which they were declared.
#[derive(Debug)]
pub struct TensorBody<W: Write> {
    out: W,
    sizes: Vec<u64>,
    alignment: u64,
    current: usize,
    /// Bytes of the current tensor so far.
    written: u64,
}

impl<W: Write> TensorBody<W> {
    /// Each tensor is padded with zeros to a multiple of `alignment`.
    pub(crate) fn new(out: W, sizes: Vec<u64>, alignment: u64) -> Self {
        Self { out, sizes, alignment, current: 0, written: 0 }
    }

    fn missing(&self) -> u64 {
        self.sizes.get(self.current).map_or(0, |size| size.saturating_sub(self.written))
    }

    /// Appends to the current tensor, and continues with the next when it is complete.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = size::widen(bytes.len());
        if len > self.missing() {
            let what = format!("tensor {}: {len} bytes, more than declared", self.current);
            return Err(invalid(what));
        }
        self.out.write_all(bytes)?;
        self.written = self.written.saturating_add(len);
        if self.missing() == 0 {
            let padded = size::align_up(self.written, self.alignment).unwrap_or(self.written);
            let padding = padded.saturating_sub(self.written);
            io::copy(&mut io::repeat(0).take(padding), &mut self.out)?;
            (self.current, self.written) = (self.current.saturating_add(1), 0);
        }
        Ok(())
    }

    /// Checks that every tensor is complete, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.current != self.sizes.len() {
            let what = format!("tensor {}: {} bytes are missing", self.current, self.missing());
            return Err(invalid(what));
        }
        self.out.flush()?;
        Ok(self.out)
    }
}
