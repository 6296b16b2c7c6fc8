//! The integer operations that instruction sets provide; `sums` builds all integer kernels on them.
//!
//! Unsigned codes of at most eight bits are multiplied by signed activations, four neighbouring
//! products at a time, into one lane per output row. Instruction sets differ in the width of the
//! lanes that first take the products: 32 bits with a byte dot product (VNNI, `sdot`), 16 bits
//! without. [`IntLanes::CAPACITY`] states how much fits, and the algorithms widen in time, so every
//! sum is exact.

use crate::LookupKernel;
use crate::ahead::{Ahead, LinesAhead};
use crate::lanes::Simd;
use crate::line::{Line, STRIP};

/// Largest number of independent sums of a row.
pub(crate) const MAX_SUMS: usize = 8;

/// Sixteen activations, in groups of four that meet the four bytes of a row.
pub(crate) type QuadBlock = [[i8; 4]; 4];

/// The width of the codes in a byte.
pub(crate) trait CodeWidth {
    /// Bits of a code.
    const BITS: usize;
    /// Largest magnitude of a code.
    const MAX: usize;
    /// True if a byte is a signed weight plus 128.
    const SIGNED: bool = false;
    /// Codes in a byte, each for a column four further on.
    const PER_BYTE: usize = 8 / Self::BITS;
    /// Lines of sixteen columns.
    const BLOCK_LINES: usize = 4 / Self::PER_BYTE;
    /// True if strips have few lines.
    const SHORT: bool = false;
}

/// Two bits holding a trit plus one.
pub(crate) struct Trits;

impl CodeWidth for Trits {
    const BITS: usize = 2;
    const MAX: usize = 2;
}

/// The keys of sixteen positions: few lines of signed bytes.
pub(crate) struct Keys;

impl CodeWidth for Keys {
    const BITS: usize = 8;
    const MAX: usize = 127;
    const SIGNED: bool = true;
    const SHORT: bool = true;
}

/// The weights of two neighbouring positions.
pub(crate) type WeightPair = [i16; 2];

/// Sixteen columns of two neighbouring positions, column by column.
pub(crate) type ValuePairs = [i8; 32];

/// Values in pages, two positions per row.
pub(crate) trait ValuePages {
    /// Number of rows in a page.
    const ROWS: usize;

    /// Returns the number of blocks of sixteen columns in a row.
    fn columns(&self) -> usize;

    /// Returns the rows of page `i`.
    fn page(&self, i: usize) -> &[ValuePairs];

    /// Returns what is prefetched while page `i` is read.
    fn ahead(&self, i: usize) -> LinesAhead;
}

/// Rows in a line of a column of a [`TernaryColumns`](crate::TernaryColumns).
pub(crate) const COLUMN_LINE_ROWS: usize = 256;

/// Columns that are added to the sums of a line before the next line.
///
/// A layer of 2B with 86 % zeros on two threads takes 41 µs with 8, 35 with 16, 31 with 32, and 70
/// without prefetching the following columns.
pub(crate) const COLUMNS_AT_ONCE: usize = 32;

/// Sums of the rows of a line of columns.
pub(crate) type ColumnSums = [i32; COLUMN_LINE_ROWS];

/// The same line of some columns, in groups of four, and their activations.
#[derive(Clone, Copy)]
pub(crate) struct ColumnQuads<'a> {
    /// The lines of all columns, from the one of column 0 on.
    pub(crate) lines: &'a [Line],
    /// Number of lines from one column to the next.
    pub(crate) stride: usize,
    /// Column of the first line.
    pub(crate) first: u32,
    pub(crate) columns: &'a [[u32; 4]],
    pub(crate) codes: &'a [[i8; 4]],
}

impl<'a> ColumnQuads<'a> {
    #[inline(always)]
    pub(crate) fn line(self, column: u32) -> &'a Line {
        &self.lines[(column - self.first) as usize * self.stride]
    }
}

/// Integer arithmetic on the lines of a strip.
///
/// As for [`Simd`], a value proves that the CPU has the instruction set. All
/// functions are `inline(always)`: they become instructions of the one function around them that is
/// compiled for the instruction set.
pub(crate) trait IntLanes: Simd {
    /// The bytes of a line that one pass multiplies.
    type Bytes: Copy;
    /// Sums of products for the rows of one pass, in lanes of 16 or 32 bits.
    type Narrow: Copy;
    /// Sums for the rows of one pass, in lanes of 32 bits.
    type Sums: Copy;
    /// Sixteen activations that are multiplied four at a time.
    type Quads<'a>: Copy;
    /// Sixteen columns of two positions, as 16-bit values.
    type Pairs: Copy;
    /// Sums for sixteen columns, in lanes of 32 bits.
    type Columns: Copy;

    /// Number of passes over a strip, each of which computes `16 / PASSES` rows. More than one pass
    /// keeps the sums in registers where there are few.
    const PASSES: usize = 1;

    /// Largest sum of code magnitudes that a lane of [`Narrow`](Self::Narrow) takes, each of them
    /// multiplied by an activation of -128..=127.
    const CAPACITY: usize = usize::MAX;

    /// True if [`field`](Self::field) only masks: the codes are then `2^shift` times too large, and
    /// so are their sums until [`widen`](Self::widen) divides them, exactly.
    const UNSHIFTED: bool = false;

    /// True if [`dot_signed`](Self::dot_signed) multiplies weights that still have their bias of 128.
    const BIASED: bool = false;

    /// Returns the number of independent sums per row, at most [`MAX_SUMS`]. An instruction that adds to a
    /// sum waits for the previous one, so a single token needs several sums; more tokens keep the
    /// CPU busy by themselves and leave fewer registers. `short` strips have few lines, and every
    /// sum costs an addition at the end.
    #[inline(always)]
    fn sums_per_row(_tokens: usize, _short: bool) -> usize {
        1
    }

    /// Prefetches a line that follows `line`, of codes of `bits` bits that `tokens` tokens share.
    #[inline(always)]
    fn prefetch_after(self, _line: &Line, _bits: usize, _tokens: usize) {}

    /// Loads the bytes of one pass.
    fn load_bytes(self, line: &[u8; 64], pass: usize) -> Self::Bytes;

    /// Loads the activations that one pass multiplies byte by byte.
    fn load_activations(self, activations: &[i8; 64], pass: usize) -> Self::Bytes;

    /// Extracts a field of each byte: `bytes >> shift & mask`; see [`UNSHIFTED`](Self::UNSHIFTED).
    fn field(self, bytes: Self::Bytes, shift: usize, mask: u8) -> Self::Bytes;

    /// Prepares weights with a bias of 128 for [`dot_signed`](Self::dot_signed).
    #[inline(always)]
    fn signed(self, bytes: Self::Bytes) -> Self::Bytes {
        bytes
    }

    /// Keeps the compiler from moving the computation of these codes behind their first product.
    #[inline(always)]
    fn extract_first(self, _codes: Self::Bytes, _next_codes: Self::Bytes) {}

    /// Loads sixteen activations.
    fn quads(self, activations: &QuadBlock) -> Self::Quads<'_>;

    /// Returns sums of zero.
    fn zero(self) -> Self::Narrow;

    /// Adds the products of codes and activations, byte by byte.
    fn dot(self, sums: Self::Narrow, codes: Self::Bytes, activations: Self::Bytes) -> Self::Narrow;

    /// Adds the products of the four codes of each row and quad `QUAD` of the activations.
    fn dot_quad<const QUAD: usize>(
        self,
        sums: Self::Narrow,
        codes: Self::Bytes,
        quads: Self::Quads<'_>,
    ) -> Self::Narrow;

    /// As [`dot_quad`](Self::dot_quad), for [`signed`](Self::signed) weights.
    #[inline(always)]
    fn dot_signed<const QUAD: usize>(
        self,
        sums: Self::Narrow,
        weights: Self::Bytes,
        quads: Self::Quads<'_>,
    ) -> Self::Narrow {
        self.dot_quad::<QUAD>(sums, weights, quads)
    }

    /// Returns `value` in every lane.
    fn splat_sums(self, value: i32) -> Self::Sums;

    /// Adds `narrow`, divided by `2^shift` if [`UNSHIFTED`](Self::UNSHIFTED), to `sums`.
    fn widen(self, sums: Self::Sums, narrow: Self::Narrow, shift: usize) -> Self::Sums;

    /// Stores the sums of one pass.
    fn store_sums(self, sums: Self::Sums, out: &mut [i32; STRIP], pass: usize);

    /// Adds up all lanes.
    fn total(self, sums: Self::Sums) -> i32;

    /// Loads sixteen columns of two neighbouring positions.
    fn load_pairs(self, values: &[i8; 32]) -> Self::Pairs;

    /// Returns sums of zero for sixteen columns.
    fn zero_columns(self) -> Self::Columns;

    /// Adds to each column the products of its two positions and two weights.
    fn dot_pairs(self, sums: Self::Columns, pairs: Self::Pairs, weights: [i16; 2])
    -> Self::Columns;

    /// Stores the sums of sixteen columns.
    fn store_columns(self, sums: Self::Columns, out: &mut [i32; 16]);

    /// Returns the sums of `sums::line_sums` if the instruction set multiplies pairs of tokens faster.
    #[inline(always)]
    fn paired_line_sums<const T: usize>(
        self,
        _lines: &[Line],
        _tokens: [&[i8]; T],
    ) -> Option<[[i32; STRIP]; T]> {
        None
    }

    /// True if [`decode_five_trits`](Self::decode_five_trits) is implemented. Otherwise the lines are rewritten
    /// as quad lines.
    #[inline(always)]
    fn decodes_five_trits(self) -> bool {
        false
    }

    /// Returns the sums of `sums::line_sums` over all lines of a strip of five trits per byte. Each token
    /// has whole runs of activations, which may end before or after the last line; the columns that only
    /// one of them has are zero. Lines of `ahead` are prefetched meanwhile.
    #[inline(always)]
    fn decode_five_trits<const T: usize>(
        self,
        _lines: &[Line],
        _tokens: [&[i8]; T],
        _ahead: Ahead,
    ) -> [[i32; STRIP]; T] {
        unreachable!("this instruction set does not decode five trits per byte")
    }

    /// Returns the kernel for products of many tokens, if table lookups are faster than [`dot`](Self::dot).
    #[inline(always)]
    fn lookup_kernel(self) -> Option<&'static dyn LookupKernel> {
        None
    }

    /// Stores the indices of the codes that are not zero, counted from `first`, and returns their number. What is
    /// stored behind them means nothing.
    #[inline(always)]
    fn store_non_zeros(self, codes: &[i8; 64], first: u32, out: &mut [u32; 64]) -> usize {
        let mut len = 0;
        for (index, &code) in (first..).zip(codes) {
            // Without a branch, which would be mispredicted.
            out[len % 64] = index;
            len += usize::from(code != 0);
        }
        len
    }

    /// Adds code times activation over some columns to the sums of the rows of one line; see
    /// `sums::add_columns`.
    fn accumulate_columns(self, quads: ColumnQuads<'_>, sums: &mut ColumnSums);
}

/// Lanes that `sums::add_columns` works on.
pub(crate) trait Interleave: IntLanes {
    /// Interleaves four lines byte by byte within parts of sixteen bytes: result `k` has the bytes
    /// `4k..4k + 4` of each part, in groups of four.
    fn interleave(self, columns: [Self::Bytes; 4]) -> [Self::Bytes; 4];

    /// Returns four activations for every row.
    fn broadcast(self, quad: [i8; 4]) -> Self::Bytes;

    /// Returns narrow sums that [`flush`](Self::flush) will add to `sums`.
    #[inline(always)]
    fn resume(self, _sums: &[i32; STRIP]) -> Self::Narrow {
        self.zero()
    }

    /// Adds narrow sums to the sums they were [resumed](Self::resume) from.
    #[inline(always)]
    fn flush(self, narrow: Self::Narrow, sums: &mut [i32; STRIP]) {
        let total = self.widen(self.load_sums(sums), narrow, 0);
        self.store_sums(total, sums, 0);
    }

    /// Loads the sums of sixteen rows.
    fn load_sums(self, sums: &[i32; STRIP]) -> Self::Sums;
}

/// Returns the [`IntLanes::sums_per_row`] of byte dot products that take some cycles, with sixteen
/// registers for the sums of all tokens.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "no kernel for this CPU has a byte dot product")
)]
#[inline(always)]
pub(crate) fn sums_for_dot_latency(tokens: usize) -> usize {
    match tokens {
        1 => 4,
        2 => 2,
        _ => 1,
    }
}
