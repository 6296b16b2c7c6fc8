//! Writes any [`ModelFile`] in any supported format, one tensor at a time.
//!
//! Trits and scales are copied exactly. The caller chooses the encoding of the trits, that of the
//! embedding and output head, and whether scales may be rounded.

mod compatible;
mod config_json;
mod file;
mod gguf;
mod packed;
mod sglbitnt;
mod target;
mod tokenizer;
mod wf;

pub use compatible::compatible_encodings;
pub use file::{IfExists, Staged};
pub use gguf::{GgufTarget, write_gguf};
pub use packed::write_packed_dir;
pub use sglbitnt::write_sglbitnt;
pub use target::{Container, PlannedTensor, Target};
pub use tokenizer::vocabulary_from_tokenizer_json;

use std::thread;

use wf_core::{Attention, Dense, Layer, Network, RotaryPairs};

use crate::encoding::{EncodingError, FloatEncoding, Rounding, Scales, TernaryEncoding};
use crate::encoding::{encode_floats, encode_trits};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::{LayerTensor, TensorName};
use crate::size;
use crate::tensor::{Encoding, TensorInfo};
use crate::tensor_data::TensorData;

/// Receives the number of bytes of the source that have been processed.
pub(crate) type Progress<'a> = dyn FnMut(u64) + 'a;

/// Rows of floats in memory at a time.
const CHUNK_ROWS: usize = 256;

/// Returns a tensor of the network; opening the model has found it.
fn tensor(source: &ModelFile, name: TensorName) -> &TensorInfo {
    source.tensor(name).expect("an opened model has every tensor of its network")
}

/// Returns the blocks that all layers share.
///
/// # Panics
///
/// If layers differ, which [`Target::stage`] rejects.
fn uniform_blocks(network: &Network) -> (&Attention, &Dense) {
    let layer = network.uniform_layer().expect("layers are all alike");
    (layer.attention(), layer.ffn.dense().expect("layers are dense"))
}

/// Returns `true` for a BitNet or Llama network: nothing but sub-norms on top of the usual norms.
fn is_plain(network: &Network) -> bool {
    let (attention, _) = uniform_blocks(network);
    let norms = [attention.input_norm, attention.qk_norm, attention.output_norm];
    norms.iter().all(Option::is_none) && network.embedding.scale.is_none()
}

/// Returns the dimensions of a tensor in a file: norms are vectors.
fn dims(info: &TensorInfo) -> Vec<usize> {
    if info.name.is_norm() { vec![info.cols] } else { vec![info.rows, info.cols] }
}

/// Copies tensors to a file, and counts the bytes of the source that have been processed.
struct Copier<'a> {
    source: &'a ModelFile,
    rounding: Rounding,
    pairs: RotaryPairs,
    threads: usize,
    progress: &'a mut Progress<'a>,
    done: u64,
}

impl Copier<'_> {
    /// Passes the encoded bytes of a tensor to `write`: a projection at once, floats in parts.
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

    /// Copies floats bit for bit if the encoding stays the same, and re-encodes them otherwise.
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
            // Values are decoded even if bytes are copied, to reject numbers that are not finite.
            self.source.read_floats(info, first..first + rows, &mut bytes, &mut values)?;
            if found == encoding {
                write(&bytes)?;
            } else {
                let share = rows.div_ceil(self.threads.max(1)) * info.cols;
                for part in encode_parallel(encoding, &values, share) {
                    write(&part.map_err(fault)?)?;
                }
            }
            self.done += size::widen(bytes.len());
            (self.progress)(self.done);
        }
        Ok(())
    }

    /// Reads a projection and encodes it.
    fn projection(
        &mut self,
        info: &TensorInfo,
        encoding: TernaryEncoding,
    ) -> Result<Projection, Error> {
        let data = self.source.read(info)?;
        let scales = data.scales()?;
        let trits = read_trits(&data, info, self.threads)?;
        let (trits, scales) = self.reorder_rows(info, trits, scales);
        let packed = encode_trits(encoding, &trits, info.rows, info.cols, &scales, self.rounding)
            .map_err(|e| compatible::explained(self.source, info, &scales, e))?;
        self.done += info.size;
        (self.progress)(self.done);
        Ok(Projection { packed, scale: one_scale(&scales) })
    }

    /// Reorders the rows of query and key to the rotary pairs of the file.
    fn reorder_rows(&self, info: &TensorInfo, trits: Vec<i8>, scales: Scales) -> (Vec<i8>, Scales) {
        let network = self.source.network();
        let layer = match info.name {
            TensorName::Layer(layer, LayerTensor::Query | LayerTensor::Key) => {
                network.layers.get(layer)
            }
            _ => None,
        };
        let attention = layer.map(Layer::attention);
        let pairs = attention.and_then(|attention| attention.rope).map(|rope| rope.pairs);
        let (Some(attention), Some(pairs)) = (attention, pairs) else { return (trits, scales) };
        if pairs == self.pairs {
            return (trits, scales);
        }
        let from = |row| self.pairs.row_before(row, attention.head_dim);
        let scales = match scales {
            Scales::Tensor(scale) => Scales::Tensor(scale),
            Scales::Rows(values) => Scales::Rows(reordered(&values, 1, from)),
            Scales::Groups { len, values } => {
                Scales::Groups { len, values: reordered(&values, info.cols / len, from) }
            }
        };
        (reordered(&trits, info.cols, from), scales)
    }
}

/// Encodes rows on several threads, because Q6_K is slow.
fn encode_parallel(
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

/// An encoded projection.
struct Projection {
    packed: Vec<u8>,
    /// The scale of the tensor, for encodings that store none; `encode_trits` has checked that there is one.
    scale: f32,
}

/// Returns the scale of a tensor with one scale. That of a tensor of zeros becomes positive, as formats
/// that store it elsewhere require.
fn one_scale(scales: &Scales) -> f32 {
    scales.values().first().copied().filter(|&scale| scale > 0.0).unwrap_or(1.0)
}

/// Reads all trits of a projection on several threads.
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
    fn the_two_orders_of_rotary_pairs_are_inverse() {
        let rows: Vec<usize> = (0..24).collect();
        let adjacent = reordered(&rows, 1, |row| RotaryPairs::Adjacent.row_before(row, 8));
        assert_eq!(&adjacent[..8], [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(&adjacent[8..10], [8, 12]);
        let back = reordered(&adjacent, 1, |row| RotaryPairs::Halves.row_before(row, 8));
        assert_eq!(back, rows);
    }
}
