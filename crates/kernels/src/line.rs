//! Matrices of small integers as 64-byte lines in strips of sixteen rows.

/// Output rows in a strip.
pub(crate) const STRIP: usize = 16;

/// Maximum number of columns: no integer sum in any kernel overflows, and the largest dot product of
/// trits, 128 * 2^17, is exact as an `f32`.
pub(crate) const MAX_COLS: usize = 1 << 17;

/// Sixteen rows by some columns, aligned so that no vector load crosses a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);
