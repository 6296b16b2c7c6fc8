//! Any [`ModelFile`] to any format we write, one tensor at a time.
//!
//! Trits and scales are carried over as they are. What changes on the way is said by the caller: the
//! encoding of the trits, that of the embedding and output head, and whether scales may be rounded.

mod config_json;
mod file;
mod fitting;
mod gguf;
mod packed;
mod sglbitnt;
mod target;
mod tokenizer;
mod wf;

pub use file::{Existing, Staged};
pub use fitting::fitting;
pub use gguf::{GgufTarget, write_gguf};
pub use packed::write_packed_dir;
pub use sglbitnt::write_sglbitnt;
pub use target::{Container, PlannedTensor, Target};

use std::thread;

use crate::config::RotaryPairs;
use crate::encoding::{EncodingError, FloatEncoding, Rounding, TernaryEncoding, TritScales};
use crate::encoding::{encode_floats, encode_trits};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::{LayerTensor, TensorName};
use crate::size;
use crate::tensor::{Encoding, TensorInfo};
use crate::tensor_data::TensorData;

/// Is told how many bytes of the source are done.
pub(crate) type Progress<'a> = dyn FnMut(u64) + 'a;

/// Rows of floats that are in memory at a time.
const CHUNK_ROWS: usize = 256;

/// A tensor that [`crate::ModelConfig::tensor_names`] names; opening the model has found it.
fn tensor(source: &ModelFile, name: TensorName) -> &TensorInfo {
    source.tensor(name).expect("an opened model has every tensor its configuration names")
}

/// The dimensions a file gives a tensor: a norm is a vector.
fn dims(info: &TensorInfo) -> Vec<usize> {
    if info.name.is_norm() { vec![info.cols] } else { vec![info.rows, info.cols] }
}

/// Carries tensors over to a file, and counts the bytes of the source that are done.
struct Carrier<'a> {
    source: &'a ModelFile,
    rounding: Rounding,
    pairs: RotaryPairs,
    threads: usize,
    progress: &'a mut Progress<'a>,
    done: u64,
}

impl Carrier<'_> {
    /// Hands the bytes of a tensor to `write`: a projection in one piece, floats in many.
    fn copy(
        &mut self,
        info: &TensorInfo,
        encoding: Encoding,
        mut write: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match encoding {
            Encoding::Ternary(trits) => write(&self.projection(info, trits)?.packed),
            Encoding::Float(float)
            | Encoding::MasterWeights(float)
            | Encoding::TernaryFloats(float) => self.copy_floats(info, float, write),
        }
    }

    /// The same encoding is copied bit for bit, another one is made from the decoded values.
    fn copy_floats(
        &mut self,
        info: &TensorInfo,
        encoding: FloatEncoding,
        mut write: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let fault = |e: EncodingError| self.source.fault(info, e);
        self.source.check(info)?;
        let found = info.encoding.float().unwrap_or(encoding);
        let mut bytes = Vec::new();
        let mut values = Vec::new();
        for first in (0..info.rows).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(info.rows - first);
            // Also where bytes are copied: a number that is not finite is refused here, not later.
            self.source.read_floats(info, first..first + rows, &mut bytes, &mut values)?;
            if found == encoding {
                write(&bytes)?;
            } else {
                let share = rows.div_ceil(self.threads.max(1)) * info.cols;
                for part in encode_shared(encoding, &values, share) {
                    write(&part.map_err(fault)?)?;
                }
            }
            self.done += size::widen(bytes.len());
            (self.progress)(self.done);
        }
        Ok(())
    }

    /// Reads a projection, and packs its trits for the file.
    fn projection(
        &mut self,
        info: &TensorInfo,
        encoding: TernaryEncoding,
    ) -> Result<Projection, Error> {
        let data = self.source.read(info)?;
        let scales = data.scales()?;
        let trits = read_trits(&data, info, self.threads)?;
        let (trits, scales) = self.turned(info, trits, scales);
        let packed = encode_trits(encoding, &trits, info.rows, info.cols, &scales, self.rounding)
            .map_err(|e| fitting::explained(self.source, info, &scales, e))?;
        self.done += info.size;
        (self.progress)(self.done);
        Ok(Projection { packed, scale: one_scale(&scales) })
    }

    /// The rows of a projection in the order of rotary pairs that the file has.
    fn turned(
        &self,
        info: &TensorInfo,
        trits: Vec<i8>,
        scales: TritScales,
    ) -> (Vec<i8>, TritScales) {
        let config = self.source.config();
        let turns =
            matches!(info.name, TensorName::Layer(_, LayerTensor::Query | LayerTensor::Key));
        if !turns || config.rotary_pairs == self.pairs {
            return (trits, scales);
        }
        let from = |row| self.pairs.row_before(row, config.head_dim);
        let scales = match scales {
            TritScales::Tensor(scale) => TritScales::Tensor(scale),
            TritScales::Rows(values) => TritScales::Rows(reordered(&values, 1, from)),
            TritScales::Groups { len, values } => {
                TritScales::Groups { len, values: reordered(&values, info.cols / len, from) }
            }
        };
        (reordered(&trits, info.cols, from), scales)
    }
}

/// Encodes whole rows, each share of the values on a thread of its own: Q6_K takes its time.
fn encode_shared(
    encoding: FloatEncoding,
    values: &[f32],
    share: usize,
) -> Vec<Result<Vec<u8>, EncodingError>> {
    thread::scope(|scope| {
        let parts: Vec<_> = values
            .chunks(share.max(1))
            .map(|part| scope.spawn(move || encode_floats(encoding, part)))
            .collect();
        let joined = parts.into_iter().map(|part| part.join());
        joined.map(|part| part.expect("encoding does not panic")).collect()
    })
}

/// A projection as it goes into a file.
struct Projection {
    packed: Vec<u8>,
    /// Its one scale, for encodings that carry none; `encode_trits` refuses more for them.
    scale: f32,
}

/// A tensor of zeros may have any scale, and formats that keep one beside it want a positive one.
fn one_scale(scales: &TritScales) -> f32 {
    scales.values().first().copied().filter(|&scale| scale > 0.0).unwrap_or(1.0)
}

/// All trits of a projection, its rows shared among threads.
fn read_trits(data: &TensorData<'_>, info: &TensorInfo, threads: usize) -> Result<Vec<i8>, Error> {
    let mut trits = vec![0; info.rows * info.cols];
    let share = info.rows.div_ceil(threads.max(1)).max(1);
    let parts = trits.chunks_mut(share * info.cols).enumerate();
    thread::scope(|scope| {
        let parts: Vec<_> = parts
            .map(|(at, part)| {
                let first = at * share;
                scope.spawn(move || data.trits(first..(first + share).min(info.rows), part))
            })
            .collect();
        parts.into_iter().try_for_each(|part| part.join().expect("reading trits does not panic"))
    })?;
    Ok(trits)
}

fn reordered<T: Copy>(values: &[T], row_len: usize, from: impl Fn(usize) -> usize) -> Vec<T> {
    let rows = values.len() / row_len;
    (0..rows).flat_map(|row| &values[from(row) * row_len..][..row_len]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_orders_of_a_head_undo_each_other() {
        let rows: Vec<usize> = (0..24).collect();
        let adjacent = reordered(&rows, 1, |row| RotaryPairs::Adjacent.row_before(row, 8));
        assert_eq!(&adjacent[..8], [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(&adjacent[8..10], [8, 12]);
        let back = reordered(&adjacent, 1, |row| RotaryPairs::Halves.row_before(row, 8));
        assert_eq!(back, rows);
    }
}
