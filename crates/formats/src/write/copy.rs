//! Reads tensors of the source and encodes them anew.

use std::thread;

use wf_core::{Layer, RotaryPairs, ValueHeadOrder};

use super::hybrid::ValueHeadReordering;
use super::{Target, compatible};
use crate::encoding::{
    EncodingError, FloatEncoding, Scales, TernaryEncoding, encode_floats, encode_trits,
};
use crate::error::Error;
use crate::model_file::{ModelFile, TensorData};
use crate::names::{LayerTensor, TensorName};
use crate::size;
use crate::tensor::{Encoding, FloatChange, TensorInfo};

/// Receives the number of bytes of the source that have been processed.
pub(crate) type Progress<'a> = dyn FnMut(u64) + 'a;

/// Rows of floats in memory at a time.
const CHUNK_ROWS: usize = 256;

/// Copies tensors to a file, and counts the bytes of the source that have been processed.
pub(super) struct Copier<'a> {
    source: &'a ModelFile,
    target: &'a Target,
    pub(super) pairs: RotaryPairs,
    /// Order of the value heads of recurrent mixers; that of the source if absent.
    pub(super) value_heads: Option<ValueHeadOrder>,
    progress: &'a mut Progress<'a>,
    done: u64,
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        source: &'a ModelFile,
        target: &'a Target,
        progress: &'a mut Progress<'a>,
    ) -> Self {
        let pairs = RotaryPairs::Halves;
        Self { source, target, pairs, value_heads: None, progress, done: 0 }
    }

    /// Passes the encoded bytes of a tensor to `write`: a projection at once, floats in parts.
    pub(super) fn copy(
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

    /// Copies floats bit for bit if the encoding stays the same, and re-encodes them otherwise; a
    /// ternary table becomes floats.
    pub(super) fn copy_floats(
        &mut self,
        info: &TensorInfo,
        encoding: FloatEncoding,
        mut write: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.reordering(info).is_some() {
            return write(&self.reordered_floats(info, encoding)?);
        }
        let fault = |e: EncodingError| self.source.fault(info, e);
        self.source.check(info)?;
        let is_same =
            info.encoding == Encoding::Float(encoding) && info.change == FloatChange::None;
        let trits = match info.encoding.is_ternary() {
            true => Some(self.source.read(info)?),
            false => None,
        };
        let trits = trits.map(|data| Ok::<_, Error>((data.scales()?, data))).transpose()?;
        let mut bytes = Vec::new();
        let mut values = Vec::new();
        for first in (0..info.rows).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(info.rows - first);
            // Values are decoded even if bytes are copied, to reject numbers that are not finite.
            match &trits {
                None => {
                    let range = first..first + rows;
                    self.source.read_floats(info, range, &mut bytes, &mut values)?;
                    self.done += size::widen(bytes.len());
                }
                Some((scales, data)) => {
                    values.resize(rows * info.cols, 0.0);
                    data.weights(scales, first..first + rows, &mut values)?;
                    let rows_done = size::widen(first + rows) * info.size / size::widen(info.rows);
                    let before = size::widen(first) * info.size / size::widen(info.rows);
                    self.done += rows_done - before;
                }
            }
            if is_same {
                write(&bytes)?;
            } else {
                let share = rows.div_ceil(self.target.threads.max(1)) * info.cols;
                for part in encode_parallel(encoding, &values, share) {
                    write(&part.map_err(fault)?)?;
                }
            }
            (self.progress)(self.done);
        }
        Ok(())
    }

    pub(super) fn projection(
        &mut self,
        info: &TensorInfo,
        encoding: TernaryEncoding,
    ) -> Result<Projection, Error> {
        let data = self.source.read(info)?;
        let scales = data.scales()?;
        let trits = read_trits(&data, info, self.target.threads)?;
        let (trits, scales) = self.reorder_rows(info, trits, scales);
        let (trits, scales) = self.reorder_value_heads(info, trits, scales)?;
        let packed =
            encode_trits(encoding, &trits, info.rows, info.cols, &scales, self.target.rounding)
                .map_err(|e| compatible::explained(self.source, info, &scales, e))?;
        self.done += info.size;
        (self.progress)(self.done);
        Ok(Projection { packed, scale: one_scale(&scales) })
    }

    /// Returns the tensor of a recurrent mixer whose value heads have another order in the file, and how they
    /// move.
    fn reordering(&self, info: &TensorInfo) -> Option<(LayerTensor, ValueHeadReordering<'a>)> {
        let TensorName::Layer(layer, tensor) = info.name else { return None };
        let mixer = self.source.network().layers.get(layer)?.delta_net()?;
        let reordering = ValueHeadReordering::new(mixer, self.value_heads?)?;
        let moves = (0..info.rows).any(|row| reordering.row(tensor, row) != row)
            || (0..info.cols).any(|col| reordering.col(tensor, col) != col);
        moves.then_some((tensor, reordering))
    }

    /// Encodes the floats of a recurrent mixer with its value heads in the order of the file.
    fn reordered_floats(
        &mut self,
        info: &TensorInfo,
        encoding: FloatEncoding,
    ) -> Result<Vec<u8>, Error> {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        self.source.check(info)?;
        self.source.read_floats(info, 0..info.rows, &mut bytes, &mut values)?;
        if let Some((tensor, reordering)) = self.reordering(info) {
            values = reordering.matrix(tensor, &values, info.cols);
        }
        self.done += info.size;
        (self.progress)(self.done);
        encode_floats(encoding, &values).map_err(|e| self.source.fault(info, e))
    }

    /// Reorders rows or columns to the order of value heads in the file.
    fn reorder_value_heads(
        &self,
        info: &TensorInfo,
        trits: Vec<i8>,
        scales: Scales,
    ) -> Result<(Vec<i8>, Scales), Error> {
        let Some((tensor, reordering)) = self.reordering(info) else { return Ok((trits, scales)) };
        let Some(scales) = reordering.scales(tensor, &scales, info.cols) else {
            let what = "has scales for groups of several value heads, which GGUF has in another order: use .wf";
            return Err(self.source.fault(info, what));
        };
        Ok((reordering.matrix(tensor, &trits, info.cols), scales))
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
        let attention = layer.and_then(Layer::attention);
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
pub(super) struct Projection {
    pub(super) packed: Vec<u8>,
    /// The scale of the tensor, for encodings that store none; `encode_trits` has checked that there is one.
    pub(super) scale: f32,
}

/// Returns the scale of a tensor with one scale. That of a tensor of zeros becomes positive, as formats
/// that store it elsewhere require.
pub(super) fn one_scale(scales: &Scales) -> f32 {
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
