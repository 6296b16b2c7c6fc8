//! Compares two models tensor by tensor.

use std::ops::Range;

use anyhow::Result;
use serde::Serialize;
use wf_core::Attention;
use wf_formats::{Encoding, FloatEncoding, LayerTensor, ModelFile, Scales, TensorInfo, TensorName};

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
        let mut text = format!("trits of {} projections equal", self.projections);
        match self.rounded_scales {
            0 => text.push_str(", scales equal"),
            some => text.push_str(&format!(
                ", scales of {some} rounded to f16 by up to {:.4} %",
                100.0 * self.scale_change
            )),
        }
        match self.rounded_floats.len() {
            0 => text.push_str(&format!(", {} other tensors equal", self.other_tensors)),
            some => text.push_str(&format!(
                ", {} other tensors equal and {} rounded by up to {:.1e}",
                self.other_tensors - some,
                self.rounded_floats.join(", "),
                self.float_change
            )),
        }
        if !self.different.is_empty() {
            text = format!("{} of {} differ", self.different.len(), self.tensors());
        }
        text
    }

    fn tensors(&self) -> usize {
        self.projections + self.other_tensors
    }
}

/// Compares every tensor of two models of the same shape.
pub(super) fn compare(first: &ModelFile, second: &ModelFile) -> Result<Tensors> {
    let mut found = Tensors::default();
    for a in first.tensors() {
        let Some(b) = second.tensor(a.name) else {
            found.different.push(format!("{} is missing in the second model", a.name));
            continue;
        };
        if a.name.is_linear() {
            found.projections += 1;
            compare_projection(first, a, second, b, &mut found)?;
        } else {
            found.other_tensors += 1;
            compare_floats(first, a, second, b, &mut found)?;
        }
    }
    Ok(found)
}

fn compare_projection(
    first: &ModelFile,
    a: &TensorInfo,
    second: &ModelFile,
    b: &TensorInfo,
    found: &mut Tensors,
) -> Result<()> {
    let (data, other) = (first.read(a)?, second.read(b)?);
    let mut trits = vec![0; a.rows * a.cols];
    data.trits(0..a.rows, &mut trits)?;
    let mut theirs = vec![0; b.rows * b.cols];
    other.trits(0..b.rows, &mut theirs)?;
    let (scales, other_scales) = (data.scales()?, other.scales()?);
    let other_row = other_row(first, second, a.name);

    let mut wrong = 0;
    let mut change = 0.0_f32;
    let step = span(&scales, a.cols).min(span(&other_scales, a.cols)).max(1);
    for (row, ours) in trits.chunks_exact(a.cols).enumerate() {
        let there = other_row(row);
        let their_trits = &theirs[there * a.cols..][..a.cols];
        wrong += ours.iter().zip(their_trits).filter(|(a, b)| a != b).count();
        for (part, trits) in ours.chunks(step).enumerate() {
            // The scale of zeros does not matter.
            if trits.iter().any(|&trit| trit != 0) {
                let col = part * step;
                let scale = scale_at(&scales, row, col, a.cols);
                let theirs = scale_at(&other_scales, there, col, a.cols);
                change = change.max((theirs - scale).abs() / scale.abs().max(f32::MIN_POSITIVE));
            }
        }
    }
    let name = a.name;
    if wrong > 0 {
        found.different.push(format!("{name}: {wrong} of {} trits", trits.len()));
    }
    let allowed = if has_f16_scales(a) || has_f16_scales(b) { F16_ROUNDING } else { 0.0 };
    if change > allowed {
        found.different.push(format!("{name}: scales by {:.4} %", 100.0 * change));
    } else if change > 0.0 {
        found.rounded_scales += 1;
        found.scale_change = found.scale_change.max(change);
    }
    Ok(())
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
    let attention = |file: &ModelFile| Some(*file.network().layers.get(layer?)?.attention());
    let (ours, theirs) = (attention(first), attention(second));
    let head_dim = ours.map_or(0, |attention| attention.head_dim);
    let pairs = |attention: Option<Attention>| Some(attention?.rope?.pairs);
    let (pairs, other) = (pairs(ours), pairs(theirs));
    move |row| match pairs {
        Some(pairs) if Some(pairs) != other => pairs.row_before(row, head_dim),
        _ => row,
    }
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

fn compare_floats(
    first: &ModelFile,
    a: &TensorInfo,
    second: &ModelFile,
    b: &TensorInfo,
    found: &mut Tensors,
) -> Result<()> {
    let types = [a, b].map(|t| t.encoding.float().unwrap_or(FloatEncoding::F32));
    found.is_coarse |= types.iter().any(|float| float.is_coarse());
    first.check(a)?;
    second.check(b)?;
    let (mut change, mut worst) = (0.0_f32, None);
    let (mut bytes, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for rows in chunks(a.rows) {
        first.read_floats(a, rows.clone(), &mut bytes, &mut ours)?;
        second.read_floats(b, rows.clone(), &mut bytes, &mut theirs)?;
        for (at, (ours, theirs)) in
            ours.chunks_exact(a.cols).zip(theirs.chunks_exact(a.cols)).enumerate()
        {
            let (difference, within) = difference(ours, theirs, types);
            change = change.max(difference);
            if !within && worst.is_none() {
                worst = Some((rows.start + at, difference));
            }
        }
    }
    let name = a.name;
    if let Some((row, difference)) = worst {
        let [one, two] = types;
        found.different.push(format!(
            "{name}: row {row} by {difference}, more than rounding ({one} and {two})"
        ));
    } else if change > 0.0 {
        found.rounded_floats.push(name.to_string());
        found.float_change = found.float_change.max(change);
    }
    Ok(())
}

fn chunks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(CHUNK_ROWS).map(move |first| first..(first + CHUNK_ROWS).min(rows))
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
