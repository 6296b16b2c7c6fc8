//! The scales of a ternary matrix: where an encoding keeps them, and what it has room for.

use half::f16;

use super::error::EncodingError;
use super::ternary::{I2sOrder, TernaryEncoding};
use super::{iq_bn, q2_0, quad_lines, tq};

/// The scales of a ternary matrix: a weight is its trit times the scale that covers it.
#[derive(Debug, Clone, PartialEq)]
pub enum TritScales {
    /// One for all.
    Tensor(f32),
    /// One for each row.
    Rows(Vec<f32>),
    /// One for each group of `len` columns of a row, row after row.
    Groups {
        /// Columns under one scale; divides the number of columns.
        len: usize,
        /// `rows * cols / len` scales.
        values: Vec<f32>,
    },
}

/// Whether a scale may change on its way into an encoding that stores f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Refuse a scale that would change.
    Exact,
    /// Store the nearest f16.
    Allow,
}

impl TritScales {
    /// The same scales said with fewer numbers, where they are equal bit for bit.
    #[must_use]
    pub fn simplify(self, rows: usize) -> Self {
        match self {
            Self::Groups { len, values } => {
                let per_row = values.len().checked_div(rows).unwrap_or(0);
                let whole_rows = per_row != 0 && values.len() == per_row * rows;
                if !whole_rows || !values.chunks_exact(per_row).all(all_equal) {
                    return Self::Groups { len, values };
                }
                Self::Rows(values.into_iter().step_by(per_row).collect()).simplify(rows)
            }
            Self::Rows(values) => match values.first() {
                Some(&first) if all_equal(&values) => Self::Tensor(first),
                _ => Self::Rows(values),
            },
            Self::Tensor(scale) => Self::Tensor(scale),
        }
    }

    /// Checks that there is a sound scale for every row or group of a matrix.
    pub fn check(&self, rows: usize, cols: usize) -> Result<(), EncodingError> {
        let count = |expected: usize, values: &[f32]| {
            let found = values.len();
            if found == expected {
                Ok(())
            } else {
                Err(EncodingError::ScaleCount { expected, found })
            }
        };
        match self {
            Self::Tensor(_) => {}
            Self::Rows(values) => count(rows, values)?,
            Self::Groups { len, values } => {
                if *len == 0 || !cols.is_multiple_of(*len) {
                    let (axis, multiple) = ("columns", (*len).max(1));
                    let encoding = "a scale per group";
                    return Err(EncodingError::Shape { encoding, axis, multiple, found: cols });
                }
                count(rows.saturating_mul(cols / len), values)?;
            }
        }
        match self.values().iter().find(|scale| !is_sound(**scale)) {
            None => Ok(()),
            Some(&value) => Err(EncodingError::Unholdable {
                encoding: "a scale",
                value,
                allowed: "finite numbers from 0 up",
            }),
        }
    }

    /// All scales, in order.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Tensor(scale) => std::slice::from_ref(scale),
            Self::Rows(values) | Self::Groups { values, .. } => values,
        }
    }

    /// How many columns one scale covers; a scale for several rows covers all columns.
    fn span(&self, cols: usize) -> usize {
        if let Self::Groups { len, .. } = self { *len } else { cols }
    }

    /// The scale of a column; `check` has passed.
    fn at(&self, row: usize, col: usize, cols: usize) -> f32 {
        let index = match self {
            Self::Tensor(_) => 0,
            Self::Rows(_) => row,
            Self::Groups { len, .. } => row * (cols / len) + col / len,
        };
        self.values().get(index).copied().unwrap_or_default()
    }
}

fn all_equal(values: &[f32]) -> bool {
    let mut bits = values.iter().map(|value| value.to_bits());
    let first = bits.next();
    bits.all(|bits| Some(bits) == first)
}

fn is_sound(scale: f32) -> bool {
    scale.is_finite() && scale >= 0.0
}

/// What one scale covers in an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScaleUnit {
    /// All rows.
    Tensor,
    /// One row.
    Row,
    /// So many columns of one row.
    Group(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Width {
    F16,
    F32,
}

/// Where an encoding keeps its scales.
#[derive(Clone, Copy)]
struct Places {
    unit: ScaleUnit,
    width: Width,
    /// Byte of the first scale.
    first: usize,
    /// From one scale to the next. (IQ2_BN_R4 keeps four together: see `offset`.)
    step: usize,
    fours: bool,
}

impl Places {
    fn of(
        encoding: TernaryEncoding,
        rows: usize,
        cols: usize,
    ) -> Result<Option<Self>, EncodingError> {
        let bundle = encoding.bundle_bytes(cols)?;
        let each = |unit, width, first, step| Some(Self { unit, width, first, step, fours: false });
        Ok(match encoding {
            TernaryEncoding::I2s(I2sOrder::FourRows) => {
                each(ScaleUnit::Tensor, Width::F32, rows / 4 * bundle, 0)
            }
            TernaryEncoding::I2s(_) => each(ScaleUnit::Tensor, Width::F32, rows * bundle, 0),
            TernaryEncoding::Tq1_0 => {
                let unit = ScaleUnit::Group(tq::GROUP_LEN);
                each(unit, Width::F16, tq::TQ1_TRIT_BYTES, tq::TQ1_GROUP_BYTES)
            }
            TernaryEncoding::Tq2_0 => {
                let unit = ScaleUnit::Group(tq::GROUP_LEN);
                each(unit, Width::F16, tq::TQ2_TRIT_BYTES, tq::TQ2_GROUP_BYTES)
            }
            TernaryEncoding::Q2_0 { group_len } => {
                each(ScaleUnit::Group(group_len), Width::F16, 0, q2_0::group_bytes(group_len))
            }
            TernaryEncoding::Iq2Bn => each(ScaleUnit::Row, Width::F32, 0, bundle),
            TernaryEncoding::Iq1Bn => each(ScaleUnit::Row, Width::F16, 0, bundle),
            TernaryEncoding::Iq2BnR4 => Some(Self {
                unit: ScaleUnit::Row,
                width: Width::F32,
                first: 0,
                step: bundle,
                fours: true,
            }),
            TernaryEncoding::QuadLines(unit) => {
                each(unit, Width::F32, quad_lines::lines_bytes(rows, cols), size_of::<f32>())
            }
            TernaryEncoding::HfPacked
            | TernaryEncoding::SglPacked
            | TernaryEncoding::Tl1(_)
            | TernaryEncoding::Tl2(_) => None,
        })
    }

    fn offset(self, index: usize) -> usize {
        if self.fours {
            index / iq_bn::R4_ROWS * self.step + index % iq_bn::R4_ROWS * 4
        } else {
            self.first + index * self.step
        }
    }

    fn count(self, rows: usize, cols: usize) -> usize {
        match self.unit {
            ScaleUnit::Tensor => 1,
            ScaleUnit::Row => rows,
            ScaleUnit::Group(len) => rows * (cols / len),
        }
    }

    fn read(self, bytes: &[u8], offset: usize) -> f32 {
        let rest = bytes.get(offset..).unwrap_or_default();
        match self.width {
            Width::F16 => rest.first_chunk().map_or(f32::NAN, |b| f16::from_le_bytes(*b).to_f32()),
            Width::F32 => rest.first_chunk().map_or(f32::NAN, |b| f32::from_le_bytes(*b)),
        }
    }
}

/// Reads the scales of a matrix, said with as few numbers as they need. `bytes` is the whole tensor.
pub fn decode_scales(
    encoding: TernaryEncoding,
    bytes: &[u8],
    rows: usize,
    cols: usize,
) -> Result<TritScales, EncodingError> {
    encoding.check_size(bytes.len(), rows, cols)?;
    let Some(places) = Places::of(encoding, rows, cols)? else {
        return Err(EncodingError::NoScale { encoding: encoding.name() });
    };
    let values = (0..places.count(rows, cols))
        .map(|index| {
            let offset = places.offset(index);
            let value = places.read(bytes, offset);
            if is_sound(value) { Ok(value) } else { Err(EncodingError::Scale { offset, value }) }
        })
        .collect::<Result<Vec<f32>, EncodingError>>()?;
    let scales = match places.unit {
        ScaleUnit::Tensor | ScaleUnit::Row => TritScales::Rows(values),
        ScaleUnit::Group(len) => TritScales::Groups { len, values },
    };
    Ok(scales.simplify(rows))
}

/// Writes the scales into the bytes of an encoded matrix, or says why they do not fit.
pub(super) fn write_scales(
    encoding: TernaryEncoding,
    scales: &TritScales,
    rounding: Rounding,
    trits: &[i8],
    rows: usize,
    cols: usize,
    bytes: &mut [u8],
) -> Result<(), EncodingError> {
    scales.check(rows, cols)?;
    let Some(places) = Places::of(encoding, rows, cols)? else {
        return one_scale(encoding, ScaleUnit::Tensor, scales, trits, cols, 0).map(|_| ());
    };
    let unit_len = match places.unit {
        ScaleUnit::Tensor => trits.len(),
        ScaleUnit::Row => cols,
        ScaleUnit::Group(len) => len,
    };
    for (index, trits) in trits.chunks_exact(unit_len).enumerate() {
        let scale = one_scale(encoding, places.unit, scales, trits, cols, index * unit_len)?;
        let rest = bytes.get_mut(places.offset(index)..).unwrap_or_default();
        match places.width {
            Width::F32 => rest.first_chunk_mut().map(|b: &mut [u8; 4]| *b = scale.to_le_bytes()),
            Width::F16 => {
                let stored = to_f16(encoding, scale, rounding)?;
                rest.first_chunk_mut().map(|b: &mut [u8; 2]| *b = stored.to_le_bytes())
            }
        };
    }
    Ok(())
}

/// The one scale of a run of trits that starts at flat index `start`.
///
/// A part whose trits are all 0 fits any scale, so its own is not asked: quantizers write 0 there.
fn one_scale(
    encoding: TernaryEncoding,
    unit: ScaleUnit,
    scales: &TritScales,
    trits: &[i8],
    cols: usize,
    start: usize,
) -> Result<f32, EncodingError> {
    let span = scales.span(cols).min(trits.len()).max(1);
    let place = |at: usize| ((start + at) / cols, (start + at) % cols);
    let at = |(row, col): (usize, usize)| scales.at(row, col, cols);
    let mut found: Option<f32> = None;
    for (index, part) in trits.chunks(span).enumerate() {
        let (row, col) = place(index * span);
        let second = at((row, col));
        match found {
            _ if part.iter().all(|trit| *trit == 0) => {}
            None => found = Some(second),
            Some(first) if first.to_bits() == second.to_bits() => {}
            Some(first) => {
                let unit = match unit {
                    ScaleUnit::Tensor => "tensor",
                    ScaleUnit::Row => "row",
                    ScaleUnit::Group(_) => "group",
                };
                let encoding = encoding.name();
                return Err(EncodingError::ScaleUnit { encoding, unit, row, first, second });
            }
        }
    }
    Ok(found.unwrap_or_else(|| at(place(0))))
}

fn to_f16(encoding: TernaryEncoding, scale: f32, rounding: Rounding) -> Result<f16, EncodingError> {
    let encoding = encoding.name();
    let half = f16::from_f32(scale);
    let stored = half.to_f32();
    if !stored.is_finite() || (stored == 0.0 && scale != 0.0) {
        let allowed = "scales of 0 and from 0.00000006 to 65504 (f16)";
        return Err(EncodingError::Unholdable { encoding, value: scale, allowed });
    }
    if rounding == Rounding::Exact && stored.to_bits() != scale.to_bits() {
        return Err(EncodingError::ScaleRounded { encoding, value: scale, stored });
    }
    Ok(half)
}
