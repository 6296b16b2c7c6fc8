//! Compares two models tensor by tensor.

use std::borrow::Cow;
use std::ops::Range;

use anyhow::Result;
use serde::Serialize;
use wf_formats::{
    Encoding, FloatEncoding, LayerTensor, ModelFile, Scales, TensorData, TensorInfo, TensorName,
    ValueHeadReordering,
};

/// Maximum relative change by rounding to f16.
const F16_ROUNDING: f32 = 1.0 / 2048.0;
/// Number of rows of floats to compare at a time.
const CHUNK_ROWS: usize = 256;

#[derive(Serialize, Default)]
pub(super) struct Tensors {
    projections: usize,
    other_tensors: usize,
    /// Number of projections whose scales differ by rounding to f16.
    rounded_scales: usize,
    /// Maximum relative difference of such scales.
    scale_change: f32,
    /// Names of other tensors that differ by the rounding of their type.
    rounded_floats: Vec<String>,
    /// Maximum difference of such tensors.
    float_change: f32,
    /// True if a tensor has four bits per value.
    #[serde(skip)]
    pub(super) is_coarse: bool,
    /// All other differences.
    pub(super) different: Vec<String>,
}

impl Tensors {
    /// Returns the first difference beyond rounding.
    pub(super) fn fault(&self) -> Option<String> {
        self.different.first().cloned()
    }

    /// Returns the first difference by rounding.
    pub(super) fn rounding(&self) -> Option<String> {
        match (self.rounded_scales, self.rounded_floats.first()) {
            (0, None) => None,
            (0, Some(name)) => Some(format!("{name} is rounded")),
            (scales, _) => Some(format!("the scales of {scales} projections are rounded")),
        }
    }

    pub(super) fn summary(&self) -> String {
        let Self { projections, other_tensors, different, .. } = self;
        if !different.is_empty() {
            return format!("{} of {} differ", different.len(), projections + other_tensors);
        }
        let scales = match self.rounded_scales {
            0 => "scales equal".to_owned(),
            some => {
                let percent = 100.0 * self.scale_change;
                format!("scales of {some} rounded to f16 by up to {percent:.4} %")
            }
        };
        let others = match self.rounded_floats.len() {
            0 => format!("{other_tensors} other tensors equal"),
            some => format!(
                "{} other tensors equal and {} rounded by up to {:.1e}",
                other_tensors - some,
                self.rounded_floats.join(", "),
                self.float_change
            ),
        };
        format!("trits of {projections} projections equal, {scales}, {others}")
    }

    fn compare_trits(&mut self, [(first, a), (second, b)]: Pair<'_>) -> Result<()> {
        self.projections += 1;
        let ((trits, scales), (other_trits, other_scales)) =
            (read_projection(first, a)?, read_projection(second, b)?);
        let other_row = other_row(first, second, a.name);
        let moved = value_heads(first, second, a.name);
        let other_col = |col| moved.map_or(col, |(tensor, heads)| heads.col(tensor, col));
        let (mut wrong, mut change) = (0, 0.0_f32);
        let step = span(&scales, a.cols).min(span(&other_scales, a.cols)).max(1);
        for (row, ours) in trits.chunks_exact(a.cols).enumerate() {
            let there = moved.map_or(other_row(row), |(tensor, heads)| heads.row(tensor, row));
            let theirs = &other_trits[there * a.cols..][..a.cols];
            let differs = |(col, trit): &(usize, &i8)| **trit != theirs[other_col(*col)];
            wrong += ours.iter().enumerate().filter(differs).count();
            for (part, trits) in ours.chunks(step).enumerate() {
                // The scale of zeros does not matter.
                if trits.iter().any(|&trit| trit != 0) {
                    let scale = scale_at(&scales, row, part * step, a.cols);
                    let theirs = scale_at(&other_scales, there, other_col(part * step), a.cols);
                    let relative = (theirs - scale).abs() / scale.abs().max(f32::MIN_POSITIVE);
                    change = change.max(relative);
                }
            }
        }
        let name = a.name;
        if wrong > 0 {
            self.different.push(format!("{name}: {wrong} of {} trits", trits.len()));
        }
        let allowed = if has_f16_scales(a) || has_f16_scales(b) { F16_ROUNDING } else { 0.0 };
        if change > allowed {
            self.different.push(format!("{name}: scales by {:.4} %", 100.0 * change));
        } else if change > 0.0 {
            self.rounded_scales += 1;
            self.scale_change = self.scale_change.max(change);
        }
        Ok(())
    }

    fn compare_floats(&mut self, [(first, a), (second, b)]: Pair<'_>) -> Result<()> {
        self.other_tensors += 1;
        // Trits times scales are exact, as F32 is.
        let floats = |t: &TensorInfo| t.encoding.float().filter(|_| !t.encoding.is_ternary());
        let types = [a, b].map(|t| floats(t).unwrap_or(FloatEncoding::F32));
        self.is_coarse |= types.iter().any(|float| float.is_coarse());
        first.check(a)?;
        second.check(b)?;
        let (mut change, mut worst) = (0.0_f32, None);
        let moved = value_heads(first, second, a.name);
        let (mut first, mut second) = (Rows::new(first, a)?, Rows::new(second, b)?);
        // Rows that move are few, and read at once.
        let chunk = if moved.is_some() { a.rows.max(1) } else { CHUNK_ROWS };
        for start in (0..a.rows).step_by(chunk) {
            let rows = start..(start + chunk).min(a.rows);
            let (ours, theirs) = (first.read(rows.clone())?, second.read(rows.clone())?);
            let theirs = match moved {
                None => Cow::Borrowed(theirs),
                Some((tensor, heads)) => Cow::Owned(heads.matrix(tensor, theirs, a.cols)),
            };
            let pairs = ours.chunks_exact(a.cols).zip(theirs.chunks_exact(a.cols));
            for (row, (ours, theirs)) in rows.zip(pairs) {
                let (difference, is_within) = difference(ours, theirs, types);
                change = change.max(difference);
                if !is_within {
                    worst.get_or_insert((row, difference));
                }
            }
        }
        let name = a.name;
        if let Some((row, difference)) = worst {
            let [one, two] = types;
            self.different.push(format!(
                "{name}: row {row} by {difference}, more than rounding ({one} and {two})"
            ));
        } else if change > 0.0 {
            self.rounded_floats.push(name.to_string());
            self.float_change = self.float_change.max(change);
        }
        Ok(())
    }
}

/// Rows of a tensor as floats, whether it is stored so or as trits.
struct Rows<'a> {
    file: &'a ModelFile,
    tensor: &'a TensorInfo,
    trits: Option<(TensorData<'a>, Scales)>,
    bytes: Vec<u8>,
    values: Vec<f32>,
}

impl<'a> Rows<'a> {
    fn new(file: &'a ModelFile, tensor: &'a TensorInfo) -> Result<Self> {
        let trits = match tensor.encoding.is_ternary() {
            true => {
                let data = file.read(tensor)?;
                let scales = data.scales()?;
                Some((data, scales))
            }
            false => None,
        };
        Ok(Self { file, tensor, trits, bytes: Vec::new(), values: Vec::new() })
    }

    fn read(&mut self, rows: Range<usize>) -> Result<&[f32]> {
        match &self.trits {
            None => {
                self.file.read_floats(self.tensor, rows, &mut self.bytes, &mut self.values)?;
            }
            Some((data, scales)) => {
                self.values.resize(rows.len() * self.tensor.cols, 0.0);
                data.weights(scales, rows, &mut self.values)?;
            }
        }
        Ok(&self.values)
    }
}

/// The same tensor of two models.
type Pair<'a> = [(&'a ModelFile, &'a TensorInfo); 2];

/// Compares every tensor of two models of the same shape.
pub(super) fn compare(first: &ModelFile, second: &ModelFile) -> Result<Tensors> {
    let mut found = Tensors::default();
    for a in first.tensors() {
        match second.tensor(a.name) {
            None => found.different.push(format!("{} is missing in the second model", a.name)),
            Some(b) if a.encoding.is_ternary() && b.encoding.is_ternary() => {
                found.compare_trits([(first, a), (second, b)])?;
            }
            Some(b) => found.compare_floats([(first, a), (second, b)])?,
        }
    }
    Ok(found)
}

fn read_projection(file: &ModelFile, t: &TensorInfo) -> Result<(Vec<i8>, Scales)> {
    let (data, mut trits) = (file.read(t)?, vec![0; t.rows * t.cols]);
    data.trits(0..t.rows, &mut trits)?;
    Ok((trits, data.scales()?))
}

/// Returns the index of a row of the first model in the second: some files permute the rows of query
/// and key.
fn other_row(
    first: &ModelFile,
    second: &ModelFile,
    name: TensorName,
) -> impl Fn(usize) -> usize + use<> {
    let layer = match name {
        TensorName::Layer(layer, LayerTensor::Query | LayerTensor::Key) => Some(layer),
        _ => None,
    };
    let rotation = |file: &ModelFile| {
        let attention = file.network().layers.get(layer?)?.attention()?;
        Some((attention.rope?.pairs, attention.head_dim))
    };
    let (ours, theirs) = (rotation(first), rotation(second).map(|(pairs, _)| pairs));
    move |row| match ours {
        Some((pairs, head_dim)) if Some(pairs) != theirs => pairs.row_before(row, head_dim),
        _ => row,
    }
}

/// Returns how the value heads of a recurrent mixer come from the order of the second model to that of the first, if
/// they differ.
fn value_heads<'a>(
    first: &ModelFile,
    second: &'a ModelFile,
    name: TensorName,
) -> Option<(LayerTensor, ValueHeadReordering<'a>)> {
    let TensorName::Layer(layer, tensor) = name else { return None };
    let order = first.network().layers.get(layer)?.delta_net()?.order;
    let mixer = second.network().layers.get(layer)?.delta_net()?;
    Some((tensor, ValueHeadReordering::new(mixer, order)?))
}

fn has_f16_scales(t: &TensorInfo) -> bool {
    let Encoding::Ternary(encoding) = t.encoding else { return false };
    encoding.scale_unit().is_some() && !encoding.has_exact_scales()
}

/// Returns the number of columns per scale.
fn span(scales: &Scales, cols: usize) -> usize {
    if let Scales::Groups { len, .. } = scales { *len } else { cols }
}

fn scale_at(scales: &Scales, row: usize, col: usize, cols: usize) -> f32 {
    match scales {
        Scales::Tensor(scale) => *scale,
        Scales::Rows(values) => values[row],
        Scales::Groups { len, values } => values[row * (cols / len) + col / len],
    }
}

/// Returns the largest difference of two rows, and `true` if all are within the rounding of the types.
fn difference(ours: &[f32], theirs: &[f32], types: [FloatEncoding; 2]) -> (f32, bool) {
    let block_maxima = types.map(|float| block_maxima(ours, theirs, float.block_len()));
    let (mut largest, mut within) = (0.0_f32, true);
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let difference = (a - b).abs();
        let errors = types.iter().zip(&block_maxima);
        let bound: f32 =
            errors.map(|(float, max)| float.max_error(*a, max[at / float.block_len()])).sum();
        largest = largest.max(difference);
        within &= difference <= bound;
    }
    (largest, within)
}

/// Returns the largest magnitude in each block of two rows.
fn block_maxima(ours: &[f32], theirs: &[f32], block_len: usize) -> Vec<f32> {
    let max = |values: &[f32]| values.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
    let blocks = ours.chunks(block_len).zip(theirs.chunks(block_len));
    blocks.map(|(ours, theirs)| max(ours).max(max(theirs))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_compared_with_the_rounding_of_types() {
        let exact = [FloatEncoding::F32; 2];
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0], exact), (0.0, true));
        let (largest, within) = difference(&[1.0, 2.0], &[1.0, 2.001], exact);
        assert!(largest > 0.0009 && !within);
        let half = [FloatEncoding::F32, FloatEncoding::F16];
        assert!(difference(&[2.0], &[2.0009], half).1);
        assert!(!difference(&[2.0], &[2.0011], half).1);
        // The step of eight bits comes from the largest value of the block.
        let eight = [FloatEncoding::F32, FloatEncoding::Q8_0];
        assert!(difference(&[127.0, 1.0], &[127.0, 1.5], eight).1);
        assert!(!difference(&[127.0, 1.0], &[127.0, 1.7], eight).1);
    }
}
