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

use std::arch::asm;
use std::marker::PhantomData;

use super::Amx;
use crate::line::STRIP;
use crate::tiles::{BAND, Tile};

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

/// The configured tile registers of this thread.
///
/// `tmm0` to `tmm3` are sums, `tmm4` and `tmm5` activations of two bands, `tmm6` and `tmm7` weights of
/// two strips.
pub(super) struct Tiles {
    /// The registers belong to a thread.
    thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the registers. Only the first `tokens` (1 to 16) rows of the first band are computed.
    pub(super) fn configure(_proof: Amx, tokens: usize) -> Self {
        assert!((1..=BAND).contains(&tokens), "{tokens} tokens in the first band");
        let mut config = Config {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        config.row_bytes[..8].fill(ROW as u16);
        config.rows[..8].fill(BAND as u8);
        for tile in [0, 1, 4] {
            config.rows[tile] = tokens as u8;
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
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm7",
                "tdpbssd tmm2, tmm5, tmm6",
                "tdpbssd tmm3, tmm5, tmm7",
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

    /// Adds the products of activations and trits of one band and two strips to `sums`, or replaces
    /// `sums` if `fresh`.
    pub(super) fn add_band(
        &self,
        band: &[Tile],
        weights: &[[Tile; 2]],
        sums: &mut [SumTile; 2],
        fresh: bool,
    ) {
        assert!(
            !weights.is_empty() && band.len() == weights.len(),
            "as many tiles of codes as of weights"
        );
        // SAFETY: `self` proves the configuration: tiles of at most sixteen rows of 64 bytes, whose
        // shapes fit. Tiles are 16 * 64 bytes; `steps` of them are read from `band`, twice as many
        // from `weights`, and two are read and written at `sums`.
        unsafe {
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
                "tileloadd tmm6, [{weights} + {row}*1]",
                "tileloadd tmm4, [{band} + {row}*1]",
                "tileloadd tmm7, [{weights} + {row}*1 + 1024]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm7",
                "add {band}, 1024",
                "add {weights}, 2048",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {row}*1], tmm0",
                "tilestored [{sums} + {row}*1 + 1024], tmm1",
                band = inout(reg) band.as_ptr() => _,
                weights = inout(reg) weights.as_ptr() => _,
                steps = inout(reg) weights.len() => _,
                sums = in(reg) sums.as_mut_ptr(),
                fresh = in(reg) usize::from(fresh),
                row = in(reg) ROW,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }

    /// As [`add_band`](Self::add_band), for two bands, which share each load of weights.
    pub(super) fn add_two_bands(
        &self,
        bands: [&[Tile]; 2],
        weights: &[[Tile; 2]],
        sums: &mut [[SumTile; 2]; 2],
        fresh: bool,
    ) {
        let same_len = bands.iter().all(|band| band.len() == weights.len());
        assert!(!weights.is_empty() && same_len, "as many tiles of codes as of weights");
        // SAFETY: as above, with a second band, and four tiles at `sums`.
        unsafe {
            asm!(
                "test {fresh}, {fresh}",
                "jnz 3f",
                "tileloadd tmm0, [{sums} + {row}*1]",
                "tileloadd tmm1, [{sums} + {row}*1 + 1024]",
                "tileloadd tmm2, [{sums} + {row}*1 + 2048]",
                "tileloadd tmm3, [{sums} + {row}*1 + 3072]",
                "jmp 2f",
                "3:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm6, [{weights} + {row}*1]",
                "tileloadd tmm4, [{first} + {row}*1]",
                "tileloadd tmm7, [{weights} + {row}*1 + 1024]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{second} + {row}*1]",
                "tdpbssd tmm2, tmm5, tmm6",
                "tdpbssd tmm3, tmm5, tmm7",
                "add {first}, 1024",
                "add {second}, 1024",
                "add {weights}, 2048",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {row}*1], tmm0",
                "tilestored [{sums} + {row}*1 + 1024], tmm1",
                "tilestored [{sums} + {row}*1 + 2048], tmm2",
                "tilestored [{sums} + {row}*1 + 3072], tmm3",
                first = inout(reg) bands[0].as_ptr() => _,
                second = inout(reg) bands[1].as_ptr() => _,
                weights = inout(reg) weights.as_ptr() => _,
                steps = inout(reg) weights.len() => _,
                sums = in(reg) sums.as_mut_ptr(),
                fresh = in(reg) usize::from(fresh),
                row = in(reg) ROW,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
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
