//! Bounds-checked little-endian reads, whose errors name the field and the byte.

use crate::error::Error;
use crate::size;

/// A position in the bytes of one file.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(file: &'a str, bytes: &'a [u8]) -> Self {
        Self { file, bytes, at: 0 }
    }

    /// Returns a cursor at another byte of the file, or at its end if `offset` is past it.
    pub(crate) fn at(&self, offset: u64) -> Self {
        let at = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        Self { at, ..self.clone() }
    }

    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    pub(crate) fn offset(&self) -> u64 {
        size::widen(self.at)
    }

    pub(crate) fn remaining(&self) -> u64 {
        size::widen(self.bytes.len().saturating_sub(self.at))
    }

    /// Creates an error at the current byte.
    pub(crate) fn fault(&self, field: &str, what: impl std::fmt::Display) -> Error {
        Error::malformed(self.file, self.offset(), field, what)
    }

    pub(crate) fn take(&mut self, len: u64, field: &str) -> Result<&'a [u8], Error> {
        let Some(taken) = size::slice(self.bytes, self.offset(), len) else {
            let what = format!("needs {len} bytes, {} remain in the file", self.remaining());
            return Err(self.fault(field, what));
        };
        self.at = self.at.saturating_add(taken.len());
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &str) -> Result<[u8; N], Error> {
        let bytes = self.take(size::widen(N), field)?;
        Ok(bytes.try_into().expect("take returns the requested length"))
    }

    pub(crate) fn u8(&mut self, field: &str) -> Result<u8, Error> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self, field: &str) -> Result<u16, Error> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &str) -> Result<u32, Error> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &str) -> Result<u64, Error> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn f32(&mut self, field: &str) -> Result<f32, Error> {
        self.array(field).map(f32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self, field: &str) -> Result<f64, Error> {
        self.array(field).map(f64::from_le_bytes)
    }

    /// Reads `len` bytes of UTF-8, at most `limit`.
    pub(crate) fn text(&mut self, len: u64, limit: u64, field: &str) -> Result<&'a str, Error> {
        if len > limit {
            return Err(self.fault(field, format!("{len} bytes long, at most {limit} allowed")));
        }
        let start = self.clone();
        let bytes = self.take(len, field)?;
        std::str::from_utf8(bytes)
            .map_err(|e| start.fault(field, format!("not UTF-8 at its byte {}", e.valid_up_to())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_little_endian_and_advance() {
        let mut cursor = Cursor::new("f", &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(cursor.u32("a").unwrap(), 1);
        assert_eq!(cursor.u64("b").unwrap(), 2);
        assert_eq!(cursor.text(2, 2, "c").unwrap(), "hi");
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn a_failed_read_reports_its_position_and_does_not_advance() {
        let mut cursor = Cursor::new("f.gguf", &[7, 7, 7]);
        cursor.u8("x").unwrap();
        let error = cursor.u32("count").unwrap_err().to_string();
        assert_eq!(error, "f.gguf: byte 1: count: needs 4 bytes, 2 remain in the file");
        assert_eq!(cursor.offset(), 1);
        assert!(cursor.take(u64::MAX, "huge").is_err());
    }

    #[test]
    fn text_is_bounded_before_it_is_read() {
        let mut cursor = Cursor::new("f", b"abc\xff");
        assert!(cursor.text(4, 3, "name").unwrap_err().to_string().contains("at most 3"));
        let error = cursor.text(4, 4, "name").unwrap_err().to_string();
        assert_eq!(error, "f: byte 0: name: not UTF-8 at its byte 3");
    }
}
