//! The tile registers: all instructions that touch them, and what makes their use sound.
//!
//! - The compiler knows the registers `tmm0` to `tmm7` as things an `asm!` block may overwrite, and
//!   puts nothing there itself. So no tile is alive between two blocks: each of them loads what it
//!   works on and stores its result.
//! - The configuration does live on between blocks. It belongs to the thread and the system keeps it
//!   for us. Nothing else changes it: compilers write code for tiles only for those who call the
//!   intrinsics, and the functions around us call nobody who does. If somebody did, the next block
//!   would not compute wrong: the CPU stops a program that uses tiles of the wrong shape.
//! - [`Tiles`] proves the configuration. It cannot leave its thread, and ends it when dropped.

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

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Of each tile; there are eight.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<Config>() == 64 && size_of::<Tile>() == 16 * ROW);

/// The tile registers of this thread, in use.
///
/// `tmm0` to `tmm3` are sums, `tmm4` and `tmm5` activations of two bands, `tmm6` and `tmm7` weights of
/// two strips.
pub(super) struct Tiles {
    /// The registers belong to a thread.
    thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Takes the registers into use. Of the first band only `tokens` (1 to 16) rows are computed.
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
        // SAFETY: an `Amx` exists, so the CPU has tiles and the system allows them. Reads 64 bytes,
        // which describe eight tiles as the only palette there is allows them.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, preserves_flags));
        }
        Self { thread: PhantomData }
    }

    /// Multiplies zeros, without a load or a store: four products of tiles for each of `rounds`.
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

    /// The products of one band and two strips, summed tile by tile: activations times trits. Adds
    /// them to `sums`, or replaces what is there by them if `fresh`.
    pub(super) fn add_band(
        &self,
        band: &[Tile],
        weights: &[[Tile; 2]],
        sums: &mut [SumTile; 2],
        fresh: bool,
    ) {
        assert!(!weights.is_empty() && band.len() == weights.len(), "as many tiles");
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
        assert!(!weights.is_empty() && same_len, "as many tiles");
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
        // SAFETY: the CPU has tiles, or `self` would not exist. Tiles left in use would be saved at
        // every change of threads.
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
