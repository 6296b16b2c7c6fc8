//! Any [`ModelFile`] to any format we write, one tensor at a time.
//!
//! Trits and scales are carried over as they are. What changes on the way is said by the caller: the
//! encoding of the trits, that of the embedding and output head, and whether scales may be rounded.

mod config_json;
mod file;
mod gguf;
mod packed;
mod sglbitnt;
mod tokenizer;

pub use gguf::{GgufTarget, write_gguf};
pub use packed::write_packed_dir;
pub use sglbitnt::write_sglbitnt;

use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, TritScales};
use crate::encoding::{encode_floats, encode_trits};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::{LayerTensor, TensorName};
use crate::tensor::TensorInfo;

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

/// How a file holds its tensors.
struct Target {
    trits: TernaryEncoding,
    rounding: Rounding,
    pairs: RotaryPairs,
}

impl Target {
    /// Hands the bytes of a tensor to `write`: a projection in one piece, floats in many.
    fn copy(
        &self,
        source: &ModelFile,
        info: &TensorInfo,
        float: FloatEncoding,
        mut write: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !info.name.is_linear() {
            return copy_floats(source, info, float, write);
        }
        let (trits, scales) = projection(source, info, self.pairs)?;
        let bytes = encode_trits(self.trits, &trits, info.rows, info.cols, &scales, self.rounding)
            .map_err(|e| source.fault(info, e))?;
        write(&bytes)
    }
}

/// The same encoding is copied bit for bit, another one is made from the decoded values.
fn copy_floats(
    source: &ModelFile,
    info: &TensorInfo,
    encoding: FloatEncoding,
    mut write: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    if info.encoding.float() == Some(encoding) {
        return write(source.bytes(info));
    }
    let mut values = Vec::new();
    for first in (0..info.rows).step_by(CHUNK_ROWS) {
        let rows = first..info.rows.min(first + CHUNK_ROWS);
        values.resize(rows.len() * info.cols, 0.0);
        source.floats(info, rows, &mut values)?;
        write(&encode_floats(encoding, &values).map_err(|e| source.fault(info, e))?)?;
    }
    Ok(())
}

/// The scale of a projection whose encoding has room for one; `encode_trits` refuses more. A tensor of
/// zeros may have any, and these formats want a positive one.
fn one_scale(source: &ModelFile, info: &TensorInfo) -> Result<f32, Error> {
    let scales = source.scales(info)?;
    Ok(scales.values().first().copied().filter(|&scale| scale > 0.0).unwrap_or(1.0))
}

/// All trits and scales of a projection, with its rows in the order that `pairs` asks for.
fn projection(
    source: &ModelFile,
    info: &TensorInfo,
    pairs: RotaryPairs,
) -> Result<(Vec<i8>, TritScales), Error> {
    let mut trits = vec![0; info.rows * info.cols];
    source.trits(info, 0..info.rows, &mut trits)?;
    let scales = source.scales(info)?;
    let config = source.config();
    let turns = matches!(info.name, TensorName::Layer(_, LayerTensor::Query | LayerTensor::Key));
    if !turns || config.rotary_pairs == pairs {
        return Ok((trits, scales));
    }
    let from = |row| row_before(row, config.head_dim, pairs);
    let scales = match scales {
        TritScales::Tensor(scale) => TritScales::Tensor(scale),
        TritScales::Rows(values) => TritScales::Rows(reordered(&values, 1, from)),
        TritScales::Groups { len, values } => {
            TritScales::Groups { len, values: reordered(&values, info.cols / len, from) }
        }
    };
    Ok((reordered(&trits, info.cols, from), scales))
}

/// Which row goes to `row` when the dimensions of each head are put in the order `pairs`.
fn row_before(row: usize, head_dim: usize, pairs: RotaryPairs) -> usize {
    let (head, dim) = (row / head_dim, row % head_dim);
    let half = head_dim / 2;
    let from = match pairs {
        // 0, half, 1, half + 1, …
        RotaryPairs::Adjacent => dim / 2 + dim % 2 * half,
        // 0, 2, 4, …, 1, 3, 5, …
        RotaryPairs::Halves => dim % half * 2 + dim / half,
    };
    head * head_dim + from
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
        let adjacent = reordered(&rows, 1, |row| row_before(row, 8, RotaryPairs::Adjacent));
        assert_eq!(&adjacent[..8], [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(&adjacent[8..10], [8, 12]);
        let back = reordered(&adjacent, 1, |row| row_before(row, 8, RotaryPairs::Halves));
        assert_eq!(back, rows);
    }
}
