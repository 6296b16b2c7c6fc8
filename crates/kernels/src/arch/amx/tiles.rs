//! The tile registers: all instructions that use them, and why their use is sound.
//!
//! - The compiler knows the registers `tmm0` to `tmm7` only as clobbers of `asm!` blocks and never uses
//!   them itself. No tile is live between two blocks: each block loads its operands and stores its
//!   result.
//! - The configuration is live between blocks. It belongs to the thread, and the system preserves it.
//!   Nothing else changes it: compilers emit tile code only for callers of the intrinsics, and no
//!   function called here is one. If one were, the next block would not compute wrong results: the CPU
//!   raises a fault if tiles have the wrong shape.
//! - [`Tiles`] proves the configuration. It cannot leave its thread, and releases it when dropped.
//!
//! Products use few of the eight registers. Two threads that share a core seem to share physical registers, too:
//! with eight tiles each, they multiplied 1,400 billion pairs a second together, with four 2,100, and a thread that
//! had the core for itself 2,200 with either. The CPUs of most rented servers are such threads. So a tile of
//! weights is loaded again where another register could have kept it.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::Range;

use super::Amx;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::nibble::NIBBLE_LINE_COLS;
use crate::quant::RUN;
use crate::tiles::{BAND, Tile};

/// Packed lines that make a tile.
pub(super) const TILE_LINES: usize = RUN / LINE_COLS;

/// Lines of nibbles that make a tile.
pub(super) const NIBBLE_TILE_LINES: usize = RUN / NIBBLE_LINE_COLS;

/// Number of steps from unpacking a tile to its product.
const UNPACKED_AHEAD: usize = 2;

/// Bytes in a row of a tile, and from one row to the next in memory.
const ROW: usize = 64;

/// The sums of a band (the rows of a tile) and a strip (its columns).
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct SumTile(pub(super) [[i32; STRIP]; BAND]);

impl SumTile {
    pub(super) const ZERO: Self = Self([[0; STRIP]; BAND]);
}

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Of each tile, eight of which exist.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<Config>() == 64 && size_of::<Tile>() == 16 * ROW);

/// Stores the sums of a band.
macro_rules! store_sums {
    () => {
        concat!(
            "tilestored [{sums} + {row}*1], tmm0\n",
            "tilestored [{sums} + {row}*1 + 1024], tmm1\n"
        )
    };
}

/// Stores the sums of two bands.
macro_rules! store_sums_of_two {
    () => {
        concat!(
            "tilestored [{sums} + {row}*1], tmm0\n",
            "tilestored [{sums} + {row}*1 + 1024], tmm1\n",
            "tilestored [{sums} + {row}*1 + 2048], tmm2\n",
            "tilestored [{sums} + {row}*1 + 3072], tmm3\n"
        )
    };
}

/// Multiplies the next tile of a band by those of two strips, with the instruction `$dot`.
macro_rules! multiply_band {
    ($dot:literal, $left:literal, $right:literal, $right_offset:literal) => {
        concat!(
            "tileloadd tmm4, [{first} + {row}*1]\n",
            "tileloadd tmm6, [{",
            $left,
            "} + {row}*1]\n",
            $dot,
            " tmm0, tmm4, tmm6\n",
            "tileloadd tmm6, [{",
            $right,
            "} + {row}*1",
            $right_offset,
            "]\n",
            $dot,
            " tmm1, tmm4, tmm6\n"
        )
    };
}

/// Multiplies the next tiles of two bands by those of two strips.
macro_rules! multiply_two_bands {
    () => {
        concat!(
            "tileloadd tmm4, [{first} + {row}*1]\n",
            "tileloadd tmm6, [{weights} + {row}*1]\n",
            "tdpbssd tmm0, tmm4, tmm6\n",
            "tileloadd tmm6, [{weights} + {row}*1 + 1024]\n",
            "tdpbssd tmm1, tmm4, tmm6\n",
            "tileloadd tmm4, [{second} + {row}*1]\n",
            "tdpbssd tmm3, tmm4, tmm6\n",
            "tileloadd tmm6, [{weights} + {row}*1]\n",
            "tdpbssd tmm2, tmm4, tmm6\n"
        )
    };
}

/// Unpacks a line to four rows of a tile, as [`unpack`] does, and prefetches a later one.
macro_rules! unpack_line {
    ($lines:literal, $line:literal => $rows:literal) => {
        concat!(
            "prefetcht1 [{",
            $lines,
            "} + {ahead} + ",
            $line,
            "]\n",
            "vmovdqa64 {packed}, [{",
            $lines,
            "} + ",
            $line,
            "]\n",
            "vpermb {field}, {packed}, {low}\n",
            "vmovdqa64 [{next} + ",
            $rows,
            "], {field}\n",
            "vpermb {field}, {packed}, {middle}\n",
            "vmovdqa64 [{next} + ",
            $rows,
            " + 64], {field}\n",
            "vpermb {field}, {packed}, {high}\n",
            "vmovdqa64 [{next} + ",
            $rows,
            " + 128], {field}\n",
            "vpsrlw {packed}, {packed}, 2\n",
            "vpermb {field}, {packed}, {high}\n",
            "vmovdqa64 [{next} + ",
            $rows,
            " + 192], {field}\n",
        )
    };
}

/// Unpacks the tiles two steps after the current ones to their place.
macro_rules! unpack_next {
    () => {
        concat!(
            "lea {next}, [{weights} + 4096]\n",
            "sub {next}, {start}\n",
            "and {next}, {wrap}\n",
            "add {next}, {start}\n",
            unpack_line!("packed_left", 0 => 0),
            unpack_line!("packed_left", 64 => 256),
            unpack_line!("packed_left", 128 => 512),
            unpack_line!("packed_left", 192 => 768),
            unpack_line!("packed_right", 0 => 1024),
            unpack_line!("packed_right", 64 => 1280),
            unpack_line!("packed_right", 128 => 1536),
            unpack_line!("packed_right", 192 => 1792),
            "add {packed_left}, 256\n",
            "add {packed_right}, 256\n",
        )
    };
}

/// Goes on to the next place of unpacked tiles.
macro_rules! next_place {
    () => {
        concat!(
            "add {weights}, 2048\n",
            "sub {weights}, {start}\n",
            "and {weights}, {wrap}\n",
            "add {weights}, {start}\n",
        )
    };
}

/// The configured tile registers of this thread.
///
/// `tmm0` to `tmm3` are sums, `tmm4` activations of a band, `tmm6` weights of a strip.
pub(super) struct Tiles {
    /// The registers belong to a thread.
    thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the registers. Only the first `tokens` (1 to 16) rows of the first band are computed.
    pub(super) fn configure(proof: Amx, tokens: usize) -> Self {
        Self::configure_rows(proof, tokens, &[0, 1, 4])
    }

    /// Configures the registers. The given ones have `rows` (1 to 16) rows, the others sixteen.
    pub(super) fn configure_rows(_proof: Amx, rows: usize, tiles: &[usize]) -> Self {
        assert!((1..=BAND).contains(&rows), "{rows} rows of a tile");
        let mut config = Config {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        config.row_bytes[..8].fill(ROW as u16);
        config.rows[..8].fill(BAND as u8);
        for tile in tiles {
            config.rows[*tile] = rows as u8;
        }
        // SAFETY: an `Amx` exists, so the CPU has tiles and the system permits them. Reads 64 bytes, which
        // describe eight tiles within the limits of palette 1.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, preserves_flags));
        }
        Self { thread: PhantomData }
    }

    /// Multiplies zeros, without loads and stores: four products of tiles in each of `rounds`.
    pub(super) fn multiply_rounds(&self, rounds: u64) {
        // SAFETY: `self` proves the configuration, whose shapes fit each other. Touches no memory.
        unsafe {
            asm!(
                "2:",
                "sub {rounds}, 1",
                "jb 3f",
                "tdpbsud tmm0, tmm4, tmm6",
                "tdpbsud tmm1, tmm4, tmm7",
                "tdpbsud tmm2, tmm5, tmm6",
                "tdpbsud tmm3, tmm5, tmm7",
                "jmp 2b",
                "3:",
                rounds = inout(reg) rounds => _,
                out("tmm0") _,
                out("tmm1") _,
                out("tmm2") _,
                out("tmm3") _,
                options(nomem, nostack)
            );
        }
    }

    /// Adds the products of the codes of one band and the weights of two strips to `sums`, or replaces `sums`
    /// if `fresh`.
    pub(super) fn add_band(
        &self,
        band: &[Tile],
        weights: WeightTiles<'_>,
        sums: &mut [SumTile; 2],
        fresh: bool,
    ) {
        check_lens(&[band], weights.len());
        let ([left, right], stride) = weights.pointers();
        macro_rules! add {
            ($dot:literal) => {
                asm!(
                    "test {fresh}, {fresh}",
                    "jnz 3f",
                    "tileloadd tmm0, [{sums} + {row}*1]",
                    "tileloadd tmm1, [{sums} + {row}*1 + 1024]",
                    "jmp 2f",
                    "3:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "2:",
                    multiply_band!($dot, "left", "right", ""),
                    "add {first}, 1024",
                    "add {left}, {stride}",
                    "add {right}, {stride}",
                    "dec {steps}",
                    "jnz 2b",
                    store_sums!(),
                    first = inout(reg) band.as_ptr() => _,
                    left = inout(reg) left => _,
                    right = inout(reg) right => _,
                    stride = in(reg) stride,
                    steps = inout(reg) weights.len() => _,
                    sums = in(reg) sums.as_mut_ptr(),
                    fresh = in(reg) usize::from(fresh),
                    row = in(reg) ROW,
                    out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _,
                    options(nostack)
                )
            };
        }
        // SAFETY: `self` proves the configuration: tiles of at most sixteen rows of 64 bytes, whose shapes
        // fit. Tiles are 16 * 64 bytes; `steps` of them are read from each of `first`, `left` and `right`,
        // and two are read and written at `sums`.
        unsafe {
            if weights.are_signed() {
                add!("tdpbssd");
            } else {
                add!("tdpbsud");
            }
        }
    }

    /// Multiplies the codes of a band by weights that are unpacked on the way: the CPU unpacks the tiles of the step
    /// after next while it multiplies these, because it would wait for what it has just stored. `ring` has room
    /// for some of them; its length is a power of two.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack_and_multiply_band(
        &self,
        band: &[Tile],
        packed: PackedTiles<'_>,
        ring: &mut [[Tile; 2]],
        sums: &mut [SumTile; 2],
    ) {
        check_lens(&[band], packed.len());
        packed.unpack_first_to(ring);
        let [left, right] = packed.0.map(|tiles| tiles[UNPACKED_AHEAD.min(tiles.len())..].as_ptr());
        let [low, middle, high] = trit_tables();
        // SAFETY: as above. The packed tiles of the first two steps are unpacked; the others are read from
        // `packed_left` and `packed_right` in `unpacks` steps, and written to `next`, two places after `weights`.
        // Both wrap around at the end of the ring, which has three places or more. Prefetching has no visible
        // effect at any address.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "sub {unpacks}, 1",
                "js 3f",
                unpack_next!(),
                "3:",
                multiply_band!("tdpbssd", "weights", "weights", " + 1024"),
                "add {first}, 1024",
                next_place!(),
                "dec {steps}",
                "jnz 2b",
                store_sums!(),
                first = inout(reg) band.as_ptr() => _,
                packed_left = inout(reg) left => _,
                packed_right = inout(reg) right => _,
                weights = inout(reg) ring.as_mut_ptr() => _,
                start = in(reg) ring.as_mut_ptr(),
                wrap = in(reg) size_of_val(ring) - 1,
                ahead = in(reg) packed.bytes_to_next_pair(),
                steps = inout(reg) packed.len() => _,
                unpacks = inout(reg) packed.len().saturating_sub(UNPACKED_AHEAD) => _,
                sums = in(reg) sums.as_mut_ptr(),
                next = out(reg) _,
                row = in(reg) ROW,
                low = in(zmm_reg) low,
                middle = in(zmm_reg) middle,
                high = in(zmm_reg) high,
                packed = out(zmm_reg) _,
                field = out(zmm_reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _,
                options(nostack)
            );
        }
    }

    /// As [`unpack_and_multiply_band`](Self::unpack_and_multiply_band), for two bands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack_and_multiply_two_bands(
        &self,
        bands: [&[Tile]; 2],
        packed: PackedTiles<'_>,
        ring: &mut [[Tile; 2]],
        sums: &mut [[SumTile; 2]; 2],
    ) {
        check_lens(&bands, packed.len());
        packed.unpack_first_to(ring);
        let [left, right] = packed.0.map(|tiles| tiles[UNPACKED_AHEAD.min(tiles.len())..].as_ptr());
        let [low, middle, high] = trit_tables();
        // SAFETY: as above, with a second band, and four tiles at `sums`.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "sub {unpacks}, 1",
                "js 3f",
                unpack_next!(),
                "3:",
                multiply_two_bands!(),
                "add {first}, 1024",
                "add {second}, 1024",
                next_place!(),
                "dec {steps}",
                "jnz 2b",
                store_sums_of_two!(),
                first = inout(reg) bands[0].as_ptr() => _,
                second = inout(reg) bands[1].as_ptr() => _,
                packed_left = inout(reg) left => _,
                packed_right = inout(reg) right => _,
                weights = inout(reg) ring.as_mut_ptr() => _,
                start = in(reg) ring.as_mut_ptr(),
                wrap = in(reg) size_of_val(ring) - 1,
                ahead = in(reg) packed.bytes_to_next_pair(),
                steps = inout(reg) packed.len() => _,
                unpacks = inout(reg) packed.len().saturating_sub(UNPACKED_AHEAD) => _,
                sums = in(reg) sums.as_mut_ptr(),
                next = out(reg) _,
                row = in(reg) ROW,
                low = in(zmm_reg) low,
                middle = in(zmm_reg) middle,
                high = in(zmm_reg) high,
                packed = out(zmm_reg) _,
                field = out(zmm_reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm6") _,
                options(nostack)
            );
        }
    }
}

/// Checks that the bands have as many tiles as the weights, and at least one.
fn check_lens(bands: &[&[Tile]], len: usize) {
    let same_len = bands.iter().all(|band| band.len() == len);
    assert!(len > 0 && same_len, "as many tiles of codes as of weights");
}

/// Tiles of weights of two strips.
#[derive(Clone, Copy)]
pub(super) enum WeightTiles<'a> {
    /// Trits, those of the two strips in turns.
    Trits(&'a [[Tile; 2]]),
    /// Unsigned codes, those of the two strips in turns.
    Interleaved(&'a [[Tile; 2]]),
    /// Unsigned codes, as many of each strip.
    Separate([&'a [Tile]; 2]),
}

impl WeightTiles<'_> {
    /// Returns the number of tiles of each strip.
    fn len(self) -> usize {
        match self {
            Self::Trits(tiles) | Self::Interleaved(tiles) => tiles.len(),
            Self::Separate([left, right]) => {
                assert_eq!(left.len(), right.len(), "as many tiles of both strips");
                left.len()
            }
        }
    }

    fn are_signed(self) -> bool {
        matches!(self, Self::Trits(_))
    }

    /// Returns the first tile of each strip, and the bytes from one tile of a strip to the next.
    fn pointers(self) -> ([*const Tile; 2], usize) {
        match self {
            Self::Trits(tiles) | Self::Interleaved(tiles) => {
                let left = tiles.as_ptr().cast::<Tile>();
                ([left, left.wrapping_add(1)], size_of::<[Tile; 2]>())
            }
            Self::Separate(strips) => (strips.map(<[Tile]>::as_ptr), size_of::<Tile>()),
        }
    }
}

/// Packed tiles of two strips.
#[derive(Clone, Copy)]
pub(super) struct PackedTiles<'a>([&'a [[Line; TILE_LINES]]; 2]);

impl<'a> PackedTiles<'a> {
    pub(super) fn new(strips: [&'a [[Line; TILE_LINES]]; 2]) -> Self {
        assert_eq!(strips[0].len(), strips[1].len(), "as many tiles of both strips");
        Self(strips)
    }

    fn len(self) -> usize {
        self.0[0].len()
    }

    /// Returns the distance to the tiles of the next pair of strips, if this pair is not the last and its
    /// strips are neighbours.
    fn bytes_to_next_pair(self) -> usize {
        2 * (self.0[1].as_ptr().addr().wrapping_sub(self.0[0].as_ptr().addr()))
    }

    /// Unpacks the tiles of the first steps.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn unpack_first_to(self, ring: &mut [[Tile; 2]]) {
        let places = ring.len();
        assert!(places > UNPACKED_AHEAD && places.is_power_of_two(), "a ring of {places} places");
        self.unpack(0..UNPACKED_AHEAD.min(self.len()), ring);
    }

    /// Unpacks some tiles of each strip, and prefetches those of the next pair of strips.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack(self, columns: Range<usize>, weights: &mut [[Tile; 2]]) {
        let ahead = self.bytes_to_next_pair();
        for (column, tiles) in columns.zip(weights) {
            for (packed, tile) in self.0.iter().zip(tiles) {
                let packed = &packed[column];
                for line in packed {
                    let next = line.0.as_ptr().wrapping_add(ahead);
                    _mm_prefetch::<_MM_HINT_T1>(next.cast());
                }
                unpack(packed, tile);
            }
        }
    }
}

/// Returns three tables of trits by the lower six bits of a byte: those of its first, second and third field.
#[inline]
#[target_feature(enable = "avx512f")]
fn trit_tables() -> [__m512i; 3] {
    const fn table(shift: u32) -> [i8; 64] {
        let (mut trits, mut bits) = ([0; 64], 0);
        while bits < 64 {
            trits[bits] = (bits >> shift & 3) as i8 - 1;
            bits += 1;
        }
        trits
    }
    const TABLES: [[i8; 64]; 3] = [table(0), table(2), table(4)];
    // SAFETY: a table is 64 readable bytes.
    TABLES.each_ref().map(|table| unsafe { _mm512_loadu_si512(table.as_ptr().cast()) })
}

/// Unpacks the fields of four lines to trits, one row of the tile each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn unpack(lines: &[Line; TILE_LINES], tile: &mut Tile) {
    let [low, middle, high] = trit_tables();
    for (line, rows) in lines.iter().zip(tile.as_chunks_mut::<4>().0) {
        // SAFETY: a line is 64 readable bytes.
        let packed = unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
        // A table is indexed by six bits, so the bits that the shift moves from byte to byte do not count.
        let fields = [
            _mm512_permutexvar_epi8(packed, low),
            _mm512_permutexvar_epi8(packed, middle),
            _mm512_permutexvar_epi8(packed, high),
            _mm512_permutexvar_epi8(_mm512_srli_epi16::<2>(packed), high),
        ];
        for (row, trits) in rows.iter_mut().zip(fields) {
            // SAFETY: a row is 64 writable bytes.
            unsafe { _mm512_storeu_si512(row.0.as_mut_ptr().cast(), trits) };
        }
    }
}

/// Unpacks the codes of eight lines of nibbles, two rows of the tile each.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn unpack_nibbles(lines: &[Line; NIBBLE_TILE_LINES], tile: &mut Tile) {
    let mask = _mm512_set1_epi8(15);
    for (line, rows) in lines.iter().zip(tile.as_chunks_mut::<2>().0) {
        // SAFETY: a line is 64 readable bytes.
        let packed = unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
        // The shift moves bits from byte to byte, which the mask removes.
        for (row, nibbles) in rows.iter_mut().zip([packed, _mm512_srli_epi16::<4>(packed)]) {
            let codes = _mm512_and_si512(nibbles, mask);
            // SAFETY: a row is 64 writable bytes.
            unsafe { _mm512_storeu_si512(row.0.as_mut_ptr().cast(), codes) };
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the CPU has tiles, or `self` would not exist. Tiles that are not released would be saved
        // at every context switch.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}
