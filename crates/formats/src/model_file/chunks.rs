//! A tensor that is read chunk by chunk, on many threads, and verified on the way.

use std::sync::OnceLock;

use super::ModelFile;
use crate::checksum::{CHUNK_LEN, Checksum};
use crate::error::Error;
use crate::size;
use crate::tensor::TensorInfo;

/// The bytes of a tensor in chunks, which may be read in any order and on any thread. Where the file
/// has a checksum, [`TensorChunks::finish`] verifies it.
#[derive(Debug)]
pub struct TensorChunks<'a> {
    model: &'a ModelFile,
    info: &'a TensorInfo,
    /// The sum of each chunk that was read.
    sums: Vec<OnceLock<u64>>,
}

impl<'a> TensorChunks<'a> {
    /// Number of bytes in every chunk but the last.
    pub const CHUNK_LEN: usize = CHUNK_LEN;

    pub(crate) fn new(model: &'a ModelFile, info: &'a TensorInfo) -> Self {
        // The tensor lies inside its file, so the count is bounded by that.
        let count = model.bytes(info).len().div_ceil(CHUNK_LEN);
        Self { model, info, sums: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.sums.len()
    }

    /// Fills `out` with a chunk or the beginning of it. Like [`ModelFile::read`], this returns an error
    /// if the file was truncated.
    pub fn read(&self, chunk: usize, out: &mut [u8]) -> Result<(), Error> {
        let first = size::widen(chunk).saturating_mul(size::widen(CHUNK_LEN));
        let Some(checksum) = self.info.checksum else {
            return self.model.read_into(self.info, first, out);
        };
        let rest = usize::try_from(self.info.size.saturating_sub(first)).unwrap_or(usize::MAX);
        let len = rest.min(CHUNK_LEN);
        if out.len() >= len {
            self.model.read_into(self.info, first, out)?;
            self.note(checksum, chunk, out);
            return Ok(());
        }
        let mut bytes = vec![0; len];
        self.model.read_into(self.info, first, &mut bytes)?;
        self.note(checksum, chunk, &bytes);
        out.iter_mut().zip(&bytes).for_each(|(out, byte)| *out = *byte);
        Ok(())
    }

    fn note(&self, checksum: Checksum, chunk: usize, bytes: &[u8]) {
        if let Some(sum) = self.sums.get(chunk) {
            sum.get_or_init(|| checksum.algorithm.of_chunk(bytes));
        }
    }

    /// Reads the remaining chunks, and fails if the tensor does not have its checksum.
    pub fn finish(self) -> Result<(), Error> {
        let Some(checksum) = self.info.checksum else { return Ok(()) };
        for (chunk, sum) in self.sums.iter().enumerate() {
            if sum.get().is_none() {
                self.read(chunk, &mut [])?;
            }
        }
        let sums = self.sums.iter().filter_map(OnceLock::get).copied();
        let found = checksum.algorithm.join(sums, self.info.size);
        checksum.check(found).map_err(|what| self.model.fault(self.info, what))
    }
}
