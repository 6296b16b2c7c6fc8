//! AMX int8 tiles for products of many tokens, and AVX-512 for everything else.
//!
//! One instruction multiplies sixteen tokens by sixteen output rows over 64 columns and adds to 32-bit
//! sums: the same integers as everywhere, so what becomes of them has the same bits.

mod detect;
#[cfg(test)]
mod emulator;
mod product;
#[cfg(test)]
mod tests;
mod tiles;

use std::sync::OnceLock;

use super::avx512::{Avx512, Vnni};
use crate::{
    AttendScratch, CodeRows, FloatRows, Int8Matrix, Isa, Kernel, KvHead, Layout, NibbleMatrix,
    NonZeros, QuantBatch, QuantRow, Queries, RotaryPairs, RowBounds, ScoreBounds, Strip,
    TernaryColumns, TernaryMatrix, TernaryRows, TileKernel, VectorBounds, trial,
};

/// Proof that the CPU has tiles, that the system lets this process use them, and that they work; only
/// [`Amx::detect`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Amx {
    vectors: &'static Avx512,
}

impl Amx {
    /// Looks once, and remembers. If there is nothing to use, says why as a whole sentence.
    pub(super) fn detect() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Amx, &str>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let vectors = Self::vectors().ok_or("this CPU has no AMX int8 tiles")?;
            detect::ask_for_tiles()?;
            let amx = Self { vectors };
            let works = trial::same_bits(&amx, vectors);
            works.then_some(amx).ok_or("the AMX tiles of this CPU do not multiply right")
        });
        found.as_ref().map_err(|why| *why)
    }

    /// Products in a round of [`multiply_rounds`](Self::multiply_rounds).
    pub(super) const PRODUCTS: u64 = 4 * 16 * 16 * 64;

    /// Keeps the tiles busy, where there are any: `rounds` times four products of whole tiles.
    pub(super) fn multiply_rounds(rounds: u64) {
        if let Ok(amx) = Self::detect() {
            tiles::Tiles::configure(*amx, 16).multiply_rounds(rounds);
        }
    }

    /// What is needed besides tiles; CPUs with tiles have it.
    fn vectors() -> Option<&'static Avx512> {
        Avx512::<Vnni>::detect().filter(|_| is_x86_feature_detected!("avx512vbmi"))
    }
}

impl TileKernel for Amx {
    /// From here on, unpacking trits to bytes takes less time than reading them from packed lines once
    /// for every four tokens; and AVX-512 alone no longer keeps up with the memory.
    fn fewest_tokens(&self) -> usize {
        8
    }

    fn multiply_pair(
        &self,
        w: &TernaryMatrix,
        pair: usize,
        xs: &QuantBatch,
        y: &mut Strip<'_, f32>,
    ) {
        product::multiply_pair(*self, w, pair, xs, y);
    }
}

/// Methods of [`Kernel`] that AVX-512 does.
macro_rules! on_vectors {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($arg: $type),*) $(-> $result)? {
            self.vectors.$name($($arg),*)
        })*
    };
}

impl Kernel for Amx {
    fn isa(&self) -> Isa {
        Isa::Amx
    }

    /// Tiles are filled from quad lines only, and many tokens gain more by tiles than one token by
    /// fewer bytes.
    fn is_made_for(&self, layout: Layout) -> bool {
        layout == Layout::QuadLines
    }

    /// The same tiles were seen to run at full speed and, a minute later, at a third of it; and an
    /// emulator can have them too.
    fn pays(&self) -> bool {
        static PAYS: OnceLock<bool> = OnceLock::new();
        *PAYS.get_or_init(|| trial::is_faster(self, self.vectors))
    }

    fn tile_kernel(&self) -> Option<&dyn TileKernel> {
        Some(self)
    }

    on_vectors! {
        quantize(x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32;
        multiply(w: &TernaryMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, f32>);
        relu2_neurons(
            gate: &TernaryMatrix,
            up: &TernaryRows,
            x: &QuantRow,
            first_strip: usize,
            neurons: &mut [f32]
        ) -> usize;
        multiply_columns(w: &TernaryColumns, first_line: usize, x: &NonZeros, y: &mut [f32]);
        int8_dots(w: &Int8Matrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);
        nibble_dots(w: &NibbleMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);
        bound_scores(
            sums: [&[i32; 16]; 2],
            rows: &RowBounds,
            x: &VectorBounds,
            out: &mut ScoreBounds
        );
        dots(rows: FloatRows<'_>, x: &[f32], y: &mut [f32]);
        dots_many(rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);
        code_dots(rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);
        rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]);
        rotate(head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs);
        relu2_mul(gate: &mut [f32], up: &[f32]);
        silu_mul(gate: &mut [f32], up: &[f32]);
        gelu_mul(gate: &mut [f32], up: &[f32]);
        add(x: &mut [f32], y: &[f32]);
        softmax(x: &mut [f32]);
        attend_chunk(
            q: &Queries<'_>,
            kv: &KvHead<'_>,
            chunk: usize,
            scratch: &mut AttendScratch,
            parts: &mut [f32]
        );
        join_chunks(part_len: usize, parts: &mut [f32], next: &[f32]);
    }
}
