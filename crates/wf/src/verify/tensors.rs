//! Two models, tensor by tensor.

use std::ops::Range;

use anyhow::Result;
use serde::Serialize;
use wf_formats::{
    Encoding, FloatEncoding, LayerTensor, ModelFile, TensorInfo, TensorName, TernaryEncoding,
    TritScales,
};

/// The most that rounding to f16 changes a number, as a share of it.
const F16_ROUNDING: f32 = 1.0 / 2048.0;
/// Rows of floats that are compared at a time.
const CHUNK_ROWS: usize = 256;

/// What comparing all tensors has shown.
#[derive(Serialize, Default)]
pub(super) struct Tensors {
    projections: usize,
    other_tensors: usize,
    /// Projections with scales that differ by no more than the rounding to f16.
    rounded_scales: usize,
    /// The largest such difference, as a share of the scale.
    scale_change: f32,
    /// Other tensors that differ by no more than the rounding of their type, and the type.
    rounded_floats: Vec<String>,
    /// The largest such difference.
    float_change: f32,
    /// Whether a tensor was held in four bits.
    #[serde(skip)]
    pub(super) is_coarse: bool,
    /// Everything else that differs.
    pub(super) different: Vec<String>,
}

impl Tensors {
    /// The first thing that is not the same.
    pub(super) fn fault(&self) -> Option<String> {
        self.different.first().cloned()
    }

    /// What was rounded, if something was.
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
            found.different.push(format!("{} is in one of the two only", a.name));
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
    let their_row = their_row(first, second, a.name);

    let mut wrong = 0;
    let mut change = 0.0_f32;
    let step = span(&scales, a.cols).min(span(&other_scales, a.cols)).max(1);
    for (row, ours) in trits.chunks_exact(a.cols).enumerate() {
        let there = their_row(row);
        let their_trits = &theirs[there * a.cols..][..a.cols];
        wrong += ours.iter().zip(their_trits).filter(|(a, b)| a != b).count();
        for (part, trits) in ours.chunks(step).enumerate() {
            // Where all trits are zero, any scale will do.
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

/// Where the second model has a row of the first: some files turn the rows of query and key.
fn their_row(
    first: &ModelFile,
    second: &ModelFile,
    name: TensorName,
) -> impl Fn(usize) -> usize + use<> {
    let (pairs, other) = (first.config().rotary_pairs, second.config().rotary_pairs);
    let turns = matches!(name, TensorName::Layer(_, LayerTensor::Query | LayerTensor::Key));
    let head_dim = first.config().head_dim;
    move |row| if turns && pairs != other { pairs.row_before(row, head_dim) } else { row }
}

fn has_f16_scales(t: &TensorInfo) -> bool {
    use TernaryEncoding as E;
    matches!(t.encoding, Encoding::Ternary(E::Tq1_0 | E::Tq2_0 | E::Q2_0 { .. } | E::Iq1Bn))
}

/// Columns that one scale covers.
fn span(scales: &TritScales, cols: usize) -> usize {
    if let TritScales::Groups { len, .. } = scales { *len } else { cols }
}

fn scale_at(scales: &TritScales, row: usize, col: usize, cols: usize) -> f32 {
    match scales {
        TritScales::Tensor(scale) => *scale,
        TritScales::Rows(values) => values[row],
        TritScales::Groups { len, values } => values[row * (cols / len) + col / len],
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
    found.is_coarse |= types.contains(&FloatEncoding::Q4_0);
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

/// The largest difference of two rows, and whether all are within what their types may round.
fn difference(ours: &[f32], theirs: &[f32], types: [FloatEncoding; 2]) -> (f32, bool) {
    let (mut largest, mut within) = (0.0_f32, true);
    for (ours, theirs) in ours.chunks(256).zip(theirs.chunks(256)) {
        let top = |values: &[f32]| values.iter().fold(0.0_f32, |top, value| top.max(value.abs()));
        let top_of_256 = top(ours).max(top(theirs));
        for (ours, theirs) in ours.chunks(32).zip(theirs.chunks(32)) {
            let top_of_32 = top(ours).max(top(theirs));
            for (a, b) in ours.iter().zip(theirs) {
                let difference = (a - b).abs();
                let rounding = |float: FloatEncoding| match float {
                    FloatEncoding::F32 => 0.0,
                    // Half a unit in the last place; the second number is that of the smallest.
                    FloatEncoding::F16 => a.abs() / 2048.0 + 3e-8,
                    FloatEncoding::Bf16 => a.abs() / 256.0,
                    // Half a step, and the rounding of the step itself to f16.
                    FloatEncoding::Q8_0 => top_of_32 * (0.5 / 127.0 + 1.0 / 2048.0) + 4e-6,
                    // A whole step: the largest value is given to one end, the other is cut.
                    FloatEncoding::Q4_0 => top_of_32 * (1.0 / 8.0 + 1.0 / 2048.0) + 4e-6,
                    // Steps of sixteen values are themselves rounded to 1/127 of the largest step.
                    FloatEncoding::Q6K => top_of_256 / 32.0 + 4e-6,
                };
                largest = largest.max(difference);
                within &= difference <= types.map(rounding).iter().sum();
            }
        }
    }
    (largest, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_measured_by_what_the_types_round() {
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
