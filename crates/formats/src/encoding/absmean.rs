//! Float weights as trits: weights that are exactly ternary, and master weights, which are rounded as in
//! the training of BitNet.
//!
//! The `online` mode of Transformers: `multiplier = 1 / max(mean |w|, 1e-5)` in f32, trit =
//! `clamp(round_half_even(w * multiplier), -1, 1)`, weight = `trit / multiplier`. The same divisions
//! are used here, so that weights at a boundary are rounded to the same side.
//!
//! The mean is computed in f64. PyTorch sums f32 in an unspecified order, so the two means may differ in
//! the last bit; this one is more accurate and does not depend on the machine.

use wf_core::Scales;

use super::error::EncodingError;
use super::float::{FloatEncoding, decode_floats};
use super::ternary::check_groups;

/// Minimum mean, which avoids a division by zero.
const MIN_MEAN: f32 = 1e-5;

/// The mean of |w|. The last bits of f64 depend on the parts that are added, which should be rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct AbsMean {
    sum: f64,
    count: u64,
}

impl AbsMean {
    /// Adds one row. A weight that is not finite makes `scale` fail.
    pub(crate) fn add(&mut self, row: &[f32]) {
        // Eight independent sums in a fixed order.
        let mut lanes = [0.0_f64; 8];
        for chunk in row.chunks(lanes.len()) {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(value.abs());
            }
        }
        self.sum += lanes.iter().sum::<f64>();
        self.count += row.len() as u64;
    }

    /// Returns the scale of the added weights.
    pub(crate) fn scale(&self) -> Result<AbsMeanScale, EncodingError> {
        let mean = if self.count == 0 { 0.0 } else { (self.sum / self.count as f64) as f32 };
        if !mean.is_finite() {
            let allowed = "matrices of finite numbers with a finite mean";
            return Err(EncodingError::Unrepresentable {
                encoding: "absmean",
                value: mean,
                allowed,
            });
        }
        Ok(AbsMeanScale { multiplier: 1.0 / mean.max(MIN_MEAN) })
    }
}

/// The scale of a matrix of master weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AbsMeanScale {
    multiplier: f32,
}

impl AbsMeanScale {
    /// Returns the factor of trits.
    pub(crate) fn weight_scale(self) -> f32 {
        1.0 / self.multiplier
    }

    pub(crate) fn trits(self, weights: &[f32], out: &mut [i8]) -> Result<(), EncodingError> {
        if out.len() != weights.len() {
            return Err(EncodingError::Buffer { expected: weights.len(), found: out.len() });
        }
        for (trit, weight) in out.iter_mut().zip(weights) {
            let scaled = weight * self.multiplier;
            // Half-even rounding maps one half to 0, as a strict comparison does.
            *trit = i8::from(scaled > 0.5) - i8::from(scaled < -0.5);
        }
        Ok(())
    }
}

/// Calls `each` with every decoded row of a float matrix, until it returns `false`.
fn for_each_row(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
    mut each: impl FnMut(&[f32]) -> bool,
) -> Result<(), EncodingError> {
    let row_size = usize::try_from(float.row_size(cols)?).unwrap_or(usize::MAX).max(1);
    let mut row = vec![0.0; cols];
    for bytes in bytes.chunks(row_size) {
        decode_floats(float, bytes, &mut row)?;
        if !each(&row) {
            break;
        }
    }
    Ok(())
}

/// The parts of a float matrix in which all weights are −s, 0 or s for some s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloatTrits {
    /// The whole matrix, with this s; 0 if all weights are 0.
    Tensor(f32),
    /// Groups of so many columns of a row, up to the whole row.
    Groups(usize),
}

/// Lengths of groups that are tried, all of which kernels support.
const GROUP_LENS: [usize; 3] = [256, 128, 64];

impl FloatTrits {
    /// Finds the largest parts that are ternary, or returns the first row that has none. Stops at that
    /// row, so a matrix of other floats costs the reading of one row.
    pub(crate) fn find(
        float: FloatEncoding,
        bytes: &[u8],
        cols: usize,
    ) -> Result<Result<Self, usize>, EncodingError> {
        let (mut found, mut at) = (Ok(Self::Tensor(0.0)), 0);
        for_each_row(float, bytes, cols, |row| {
            if let Ok(parts) = found {
                found = parts.extended(row).ok_or(at);
            }
            at += 1;
            found.is_ok()
        })?;
        Ok(found)
    }

    /// Returns the largest parts that are ternary in all rows up to this one: those of larger parts are in
    /// the smaller ones, too.
    fn extended(self, row: &[f32]) -> Option<Self> {
        let cols = row.len();
        let finer_than = |len: usize| GROUP_LENS.into_iter().filter(move |&shorter| shorter < len);
        let len = match (self, magnitude(row)) {
            (Self::Tensor(scale), Some(own)) if own == 0.0 || scale == own => return Some(self),
            (Self::Tensor(0.0), Some(own)) => return Some(Self::Tensor(own)),
            (Self::Tensor(_), Some(_)) => return Some(Self::Groups(cols)),
            (Self::Tensor(_), None) => cols,
            (Self::Groups(len), _) if all_ternary(row, len) => return Some(self),
            (Self::Groups(len), _) => len,
        };
        let mut finer = finer_than(len).filter(|&len| cols.is_multiple_of(len));
        finer.find(|&len| all_ternary(row, len)).map(Self::Groups)
    }
}

fn all_ternary(row: &[f32], len: usize) -> bool {
    row.chunks(len.max(1)).all(|group| magnitude(group).is_some())
}

/// Returns s if all weights are −s, 0 or s, and 0 if all are 0; otherwise `None`.
fn magnitude(weights: &[f32]) -> Option<f32> {
    let largest = weights.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
    weights.iter().all(|weight| weight.abs() == largest || *weight == 0.0).then_some(largest)
}

/// Returns the scales of a matrix whose groups of `len` columns are ternary.
pub(crate) fn group_scales(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
    len: usize,
) -> Result<Scales, EncodingError> {
    check_groups(len, cols)?;
    let mut values = Vec::new();
    for_each_row(float, bytes, cols, |row| {
        values.extend(row.chunks(len).map(|group| magnitude(group).unwrap_or(f32::NAN)));
        true
    })?;
    Ok(Scales::Groups { len, values })
}

/// Mean magnitudes of master weights, by which they are rounded to trits.
#[derive(Debug)]
pub(crate) struct Means {
    /// Columns of a group; `None` for one mean of the whole tensor.
    group_len: Option<usize>,
    /// One mean, or one per group, row by row.
    values: Vec<AbsMeanScale>,
    groups_per_row: usize,
}

impl Means {
    /// Returns the scales of the trits.
    pub(crate) fn scales(&self, rows: usize) -> Scales {
        let values: Vec<f32> = self.values.iter().map(|mean| mean.weight_scale()).collect();
        match (self.group_len, values.as_slice()) {
            (Some(len), _) => Scales::Groups { len, values }.simplify(rows),
            (None, values) => Scales::Tensor(values.first().copied().unwrap_or(1.0)),
        }
    }

    pub(crate) fn trits(
        &self,
        row: usize,
        weights: &[f32],
        out: &mut [i8],
    ) -> Result<(), EncodingError> {
        let (first, len) = match self.group_len {
            None => (0, weights.len()),
            Some(len) => (row.saturating_mul(self.groups_per_row), len),
        };
        let groups = weights.chunks(len.max(1)).zip(out.chunks_mut(len.max(1)));
        for (mean, (weights, out)) in self.values.iter().skip(first).zip(groups) {
            mean.trits(weights, out)?;
        }
        Ok(())
    }
}

/// Computes the means of a matrix of master weights.
pub(crate) fn means_of(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
    group_len: Option<usize>,
) -> Result<Means, EncodingError> {
    let mut values = Vec::new();
    let mut groups_per_row = 0;
    if let Some(len) = group_len {
        check_groups(len, cols)?;
        groups_per_row = cols.checked_div(len).unwrap_or(0);
        for_each_row(float, bytes, cols, |row| {
            values.extend(row.chunks(len).map(|group| {
                let mut mean = AbsMean::default();
                mean.add(group);
                mean.scale()
            }));
            true
        })?;
    } else {
        let mut mean = AbsMean::default();
        for_each_row(float, bytes, cols, |row| {
            mean.add(row);
            true
        })?;
        values.push(mean.scale());
    }
    let values = values.into_iter().collect::<Result<_, _>>()?;
    Ok(Means { group_len, values, groups_per_row })
}

/// Writes the signs of weights, which are their trits if [`FloatTrits`] found them ternary.
pub(crate) fn signs(weights: &[f32], out: &mut [i8]) {
    for (trit, weight) in out.iter_mut().zip(weights) {
        *trit = i8::from(*weight > 0.0).wrapping_sub(i8::from(*weight < 0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(weights: &[f32]) -> Vec<u8> {
        weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()
    }

    fn found(weights: &[f32], cols: usize) -> Result<FloatTrits, usize> {
        FloatTrits::find(FloatEncoding::F32, &bytes(weights), cols).unwrap()
    }

    #[test]
    fn one_magnitude_besides_zero_is_ternary() {
        assert_eq!(found(&[0.0, -1.5, 1.5, -0.0], 2), Ok(FloatTrits::Tensor(1.5)));
        assert_eq!(found(&[0.0; 4], 2), Ok(FloatTrits::Tensor(0.0)));
        assert_eq!(found(&[0.0, 0.0, -1.5, 1.5, 0.0, 1.25], 2), Ok(FloatTrits::Groups(2)));
        assert_eq!(found(&[0.5, 0.5, 0.0, -1.5, 1.5, 1.25], 2), Err(2));
        let nan = FloatTrits::find(FloatEncoding::F32, &bytes(&[f32::NAN; 4]), 2);
        assert!(nan.is_err());
    }

    #[test]
    fn groups_are_as_long_as_all_rows_allow() {
        let cols = 512;
        let row = |len: usize| (0..cols).map(move |at| (1 + at / len) as f32);
        let rows = |lens: &[usize]| lens.iter().flat_map(|&len| row(len)).collect::<Vec<f32>>();
        assert_eq!(found(&rows(&[512, 512]), cols), Ok(FloatTrits::Tensor(1.0)));
        assert_eq!(found(&rows(&[512, 256]), cols), Ok(FloatTrits::Groups(256)));
        assert_eq!(found(&rows(&[256, 64, 128]), cols), Ok(FloatTrits::Groups(64)));
        assert_eq!(found(&rows(&[256, 128, 512]), cols), Ok(FloatTrits::Groups(128)));
        assert_eq!(found(&rows(&[256, 128, 32, 512]), cols), Err(2));
        let scales = group_scales(FloatEncoding::F32, &bytes(&rows(&[128])), cols, 128).unwrap();
        assert_eq!(scales, Scales::Groups { len: 128, values: vec![1.0, 2.0, 3.0, 4.0] });
    }

    #[test]
    fn signs_are_trits() {
        let mut trits = [9; 4];
        signs(&[0.0, -1.5, 1.5, -0.0], &mut trits);
        assert_eq!(trits, [0, -1, 1, 0]);
    }

    #[test]
    fn each_group_is_rounded_by_its_own_mean() {
        let weights = [0.1f32, -0.1, 0.02, 0.0, 8.0, 8.0, -1.0, 3.0];
        let means = means_of(FloatEncoding::F32, &bytes(&weights), 4, Some(2)).unwrap();
        let Scales::Groups { len: 2, values } = means.scales(2) else { panic!("no groups") };
        for (found, expected) in values.iter().zip([0.1, 0.01, 8.0, 2.0]) {
            assert!((found - expected).abs() < 1e-6, "{values:?}");
        }
        let mut trits = [9; 4];
        means.trits(0, &weights[..4], &mut trits).unwrap();
        assert_eq!(trits, [1, -1, 1, 0]);
        means.trits(1, &weights[4..], &mut trits).unwrap();
        // One half goes to even: -1 / 2 is 0.
        assert_eq!(trits, [1, 1, 0, 1]);
        let refusal = means_of(FloatEncoding::F32, &bytes(&weights), 4, Some(3)).unwrap_err();
        assert!(refusal.to_string().contains("columns in multiples of 3, found 4"), "{refusal}");
    }
}
