//! A tensor read piece by piece, on many threads, and checked on the way.

use std::sync::OnceLock;

use crate::checksum::{self, PIECE_LEN};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::size;
use crate::tensor::TensorInfo;

/// A tensor's bytes in pieces, which may be read in any order and on any threads. Where the file has a
/// checksum, [`Pieces::finish`] tells whether they are what was written.
#[derive(Debug)]
pub struct Pieces<'a> {
    model: &'a ModelFile,
    info: &'a TensorInfo,
    /// The sum of each piece, once it was read.
    sums: Vec<OnceLock<u64>>,
}

impl<'a> Pieces<'a> {
    /// Bytes of every piece but the last.
    pub const LEN: usize = PIECE_LEN;

    pub(crate) fn new(model: &'a ModelFile, info: &'a TensorInfo) -> Self {
        // The tensor lies inside its file, so the count is bounded by that.
        let count = model.bytes(info).len().div_ceil(PIECE_LEN);
        Self { model, info, sums: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// How many pieces there are.
    pub fn count(&self) -> usize {
        self.sums.len()
    }

    /// Fills `out` with the beginning of a piece, or with all of it. Like [`ModelFile::read`], this
    /// gives an error where the file was cut short.
    pub fn read(&self, piece: usize, out: &mut [u8]) -> Result<(), Error> {
        let first = size::widen(piece).saturating_mul(size::widen(PIECE_LEN));
        let rest = usize::try_from(self.info.size.saturating_sub(first)).unwrap_or(usize::MAX);
        let whole = rest.min(PIECE_LEN);
        if out.len() >= whole || self.info.checksum.is_none() {
            self.model.read_into(self.info, first, out)?;
            self.note(piece, out);
            return Ok(());
        }
        let mut bytes = vec![0; whole];
        self.model.read_into(self.info, first, &mut bytes)?;
        self.note(piece, &bytes);
        out.iter_mut().zip(&bytes).for_each(|(out, byte)| *out = *byte);
        Ok(())
    }

    /// Reads a piece for its checksum alone, if there is one.
    fn look(&self, piece: usize) -> Result<(), Error> {
        if self.info.checksum.is_none() { Ok(()) } else { self.read(piece, &mut []) }
    }

    fn note(&self, piece: usize, bytes: &[u8]) {
        if let Some(sum) = self.sums.get(piece).filter(|_| self.info.checksum.is_some()) {
            sum.get_or_init(|| checksum::of_piece(bytes));
        }
    }

    /// Looks at what was not yet read, and fails if the tensor is not what was written.
    pub fn finish(self) -> Result<(), Error> {
        let Some(expected) = self.info.checksum else { return Ok(()) };
        for (piece, sum) in self.sums.iter().enumerate() {
            if sum.get().is_none() {
                self.look(piece)?;
            }
        }
        let sums = self.sums.iter().filter_map(OnceLock::get).copied();
        check(self.model, self.info, expected, checksum::of_pieces(sums, self.info.size))
    }
}

/// Fails if a tensor has another checksum than the file says.
pub(crate) fn check(
    model: &ModelFile,
    info: &TensorInfo,
    expected: u64,
    found: u64,
) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    let what = format!("is damaged: checksum {found:016x}, the file says {expected:016x}");
    Err(model.fault(info, what))
}
