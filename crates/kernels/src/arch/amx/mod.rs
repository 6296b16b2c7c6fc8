//! AMX int8 tiles for products of many tokens, bf16 tiles for attention, and AVX-512 for everything else.
//!
//! One instruction multiplies sixteen tokens by sixteen output rows over 64 columns and adds to 32-bit
//! sums. These are the same integers as in other kernels, so results have the same bits. In bf16, it
//! multiplies sixteen query heads by sixteen positions over 32 elements; other kernels add in its order.

mod attend;
mod detect;
#[cfg(test)]
mod emulator;
mod product;
mod table;
#[cfg(test)]
mod tests;
mod tiles;

use std::ops::Range;
use std::sync::OnceLock;

use super::avx512::Avx512;
use crate::{
    AttendScratch, Int8Matrix, Isa, Kernel, KvHead, Layout, NibbleMatrix, QuantBatch, Queries,
    Strip, TernaryMatrix, TileKernel, trial,
};

/// Proof that the CPU has tiles, that the system permits their use, and that they work. Only
/// [`Amx::detect`] creates one.
#[derive(Clone, Copy)]
pub(super) struct Amx {
    vectors: &'static Avx512,
    /// Tiles multiply bf16 as well.
    bf16: bool,
}

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    Amx::detect().ok().map(|kernel| kernel as _)
}

impl Amx {
    /// Detects tiles once. The error is a sentence without a full stop.
    pub(super) fn detect() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Amx, &str>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let vectors = Self::vectors().ok_or("this CPU has no AMX int8 tiles")?;
            detect::request_tiles()?;
            let amx = Self { vectors, bf16: detect::cpu_multiplies_bf16() };
            let works = trial::same_bits(&amx, vectors);
            let amx =
                works.then_some(amx).ok_or("the AMX tiles of this CPU do not multiply right")?;
            Ok(Self { bf16: amx.bf16 && trial::same_attention(&amx, vectors), ..amx })
        });
        found.as_ref().map_err(|why| *why)
    }

    /// Products in a round of [`multiply_rounds`](Self::multiply_rounds).
    pub(super) const PRODUCTS: u64 = 4 * 16 * 16 * 64;

    /// Multiplies `rounds` times four whole tiles, if the CPU has any.
    pub(super) fn multiply_rounds(rounds: u64) {
        if let Ok(amx) = Self::detect() {
            tiles::Tiles::configure(*amx, 16).multiply_rounds(rounds);
        }
    }

    /// Returns the vector kernel. CPUs with tiles have it.
    fn vectors() -> Option<&'static Avx512> {
        Avx512::with_vnni().filter(|_| is_x86_feature_detected!("avx512vbmi"))
    }
}

impl TileKernel for Amx {
    /// From here on, unpacking trits to bytes takes less time than unpacking lines once for every four
    /// tokens, and AVX-512 alone is slower than memory.
    fn min_tokens(&self) -> usize {
        8
    }

    fn multiply_pair(
        &self,
        w: &TernaryMatrix,
        pair: usize,
        xs: &QuantBatch,
        tokens: Range<usize>,
        y: &mut Strip<'_, f32>,
    ) {
        product::multiply_pair(*self, w, pair, (xs, tokens), y);
    }

    fn int8_dots(&self, w: &Int8Matrix, pair: usize, xs: &QuantBatch, y: &mut Strip<'_, i32>) {
        table::int8_dots(*self, w, pair, xs, y);
    }

    fn nibble_dots(&self, w: &NibbleMatrix, pair: usize, xs: &QuantBatch, y: &mut Strip<'_, i32>) {
        table::nibble_dots(*self, w, pair, xs, y);
    }

    fn multiplies_bf16(&self) -> bool {
        self.bf16
    }

    fn attend_chunk(
        &self,
        q: &Queries<'_>,
        kv: &KvHead<'_>,
        chunk: usize,
        scratch: &mut AttendScratch,
        parts: &mut [f32],
    ) {
        attend::attend_chunk(*self, q, kv, chunk, scratch, parts);
    }
}

impl Kernel for Amx {
    fn isa(&self) -> Isa {
        Isa::Amx
    }

    /// Tiles are filled from quad lines only, and prompts gain more from tiles than decoding from fewer
    /// bytes.
    fn reads_layout(&self, layout: Layout) -> bool {
        layout == Layout::QuadLines
    }

    /// Measured, because virtual machines may emulate tiles or slow them down: the same tiles ran at full
    /// speed and, a minute later, at a third of it.
    fn is_recommended(&self) -> bool {
        static RECOMMENDED: OnceLock<bool> = OnceLock::new();
        *RECOMMENDED.get_or_init(|| trial::is_faster(self, self.vectors))
    }

    fn tile_kernel(&self) -> Option<&dyn TileKernel> {
        Some(self)
    }
}

super::implement_operations!(Amx, delegated vectors);
