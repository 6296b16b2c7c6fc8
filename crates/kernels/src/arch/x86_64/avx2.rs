//! AVX2 with FMA and F16C: sixteen lanes are two registers, and so is a line.

mod sparse;

use std::arch::x86_64::*;

use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums};
use crate::lanes::{F32x16, Simd};
use crate::line::{Line, STRIP};
use crate::product::LineSums;
use crate::{Isa, QuantRow};

/// Proof that this CPU has what the kernel needs; only [`Avx2::detect`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<&'static Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has_all.then_some(&Self(()))
    }
}

crate::arch::implement_kernel!(Avx2, Isa::Avx2, "avx2,fma,f16c");

/// An intrinsic on lanes or by their maker.
macro_rules! on_cpu {
    ($call:expr) => {{
        // SAFETY: an `Avx2` is at hand, or lanes that only an `Avx2` makes, so the CPU has AVX2, FMA
        // and F16C; pointers are to arrays of the size of the access, which needs no alignment.
        unsafe { $call }
    }};
}

/// Sixteen floats in two registers.
#[derive(Clone, Copy)]
pub(super) struct Lanes([__m256; 2]);

impl Lanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(__m256, __m256) -> __m256) -> Self {
        Self([f(self.0[0], other.0[0]), f(self.0[1], other.0[1])])
    }
}

impl Simd for Avx2 {
    type Lanes = Lanes;

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        Lanes([on_cpu!(_mm256_set1_ps(value)); 2])
    }

    #[inline(always)]
    fn load(self, values: &[f32; 16]) -> Lanes {
        let halves = values.as_chunks::<8>().0;
        Lanes([0, 1].map(|i| on_cpu!(_mm256_loadu_ps(halves[i].as_ptr()))))
    }

    #[inline(always)]
    fn load_i32(self, values: &[i32; 16]) -> Lanes {
        let halves = values.as_chunks::<8>().0;
        Lanes(std::array::from_fn(|i| {
            on_cpu!(_mm256_cvtepi32_ps(_mm256_loadu_si256(halves[i].as_ptr().cast())))
        }))
    }

    #[inline(always)]
    fn load_bf16(self, values: &[u16; 16]) -> Lanes {
        let halves = values.as_chunks::<8>().0;
        Lanes([0, 1].map(|i| {
            on_cpu!({
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(halves[i].as_ptr().cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            })
        }))
    }

    #[inline(always)]
    fn load_f16(self, values: &[u16; 16]) -> Lanes {
        let halves = values.as_chunks::<8>().0;
        Lanes([0, 1].map(|i| on_cpu!(_mm256_cvtph_ps(_mm_loadu_si128(halves[i].as_ptr().cast())))))
    }

    #[inline(always)]
    fn prefetch<T>(self, ahead: &[T]) {
        super::prefetch(ahead);
    }
}

impl F32x16 for Lanes {
    #[inline(always)]
    fn store(self, out: &mut [f32; 16]) {
        for (half, out) in self.0.iter().zip(out.as_chunks_mut::<8>().0) {
            on_cpu!(_mm256_storeu_ps(out.as_mut_ptr(), *half));
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_add_ps(a, b)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_sub_ps(a, b)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_mul_ps(a, b)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_div_ps(a, b)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self([0, 1].map(|i| on_cpu!(_mm256_fmadd_ps(self.0[i], factor.0[i], addend.0[i]))))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_max_ps(a, b)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(_mm256_min_ps(a, b)))
    }

    #[inline(always)]
    fn max_abs(self, other: Self) -> Self {
        // Magnitudes compare like their bits, and a NaN is above infinity.
        self.zip(other, |a, b| {
            on_cpu!({
                let magnitude = _mm256_set1_epi32(0x7fff_ffff);
                let a = _mm256_and_si256(_mm256_castps_si256(a), magnitude);
                let b = _mm256_and_si256(_mm256_castps_si256(b), magnitude);
                _mm256_castsi256_ps(_mm256_max_epi32(a, b))
            })
        })
    }

    #[inline(always)]
    fn round(self) -> Self {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        Self(self.0.map(|half| on_cpu!(_mm256_round_ps::<NEAREST>(half))))
    }

    #[inline(always)]
    fn exp2_of_integer(self) -> Self {
        Self(self.0.map(|half| {
            on_cpu!({
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(half), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            })
        }))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        on_cpu!(super::sum_of_eight(_mm256_add_ps(self.0[0], self.0[1])))
    }

    #[inline(always)]
    fn store_i8(self, out: &mut [i8; 16]) {
        on_cpu!({
            let [low, high] = self.0.map(|half| _mm256_cvtps_epi32(half));
            // Packing works within 128-bit halves: [low 0-3, high 0-3 | low 4-7, high 4-7].
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            let (first, second) =
                (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_packs_epi16(first, second));
        });
    }
}

/// How many lines the 16-bit sums of [`line_sums`] can take before they are widened.
///
/// `maddubs` adds two products of a code (at most 2) and an activation (-128..=127): -512..=508. A
/// line has four fields, so after 16 lines a sum is within 64 * -512 = -32768 and 64 * 508 = 32512,
/// just what 16 bits hold.
const LINES_IN_16_BITS: usize = 16;

impl LineSums for Avx2 {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| codes.as_chunks::<4>().0.as_chunks::<4>().0);
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, lines) in lines.chunks(LINES_IN_16_BITS).enumerate() {
        let narrow = narrow_sums(lines, LINES_IN_16_BITS * i, &tokens);
        for (sums, narrow) in sums.iter_mut().zip(narrow) {
            for (sum, narrow) in sums.iter_mut().zip(narrow) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(narrow, ones));
            }
        }
    }
    sums.map(|[low, high]| store(low, high))
}

/// The 16-bit sums, two for each of sixteen rows, over at most [`LINES_IN_16_BITS`] lines, the first
/// of which is line `first` of the tokens.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_sums<const T: usize>(
    lines: &[Line],
    first: usize,
    tokens: &[&[[[i8; 4]; 4]]; T],
) -> [[__m256i; 2]; T] {
    let mask = _mm256_set1_epi8(3);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        super::prefetch_after(line);
        let halves = line.0.as_chunks::<32>().0;
        // Rows 0 to 7 of the strip, and rows 8 to 15.
        let (mut low, mut high) = (load(&halves[0]), load(&halves[1]));
        for field in 0..4 {
            let (low_trits, high_trits) =
                (_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
            for (sums, quads) in sums.iter_mut().zip(tokens) {
                let quad = i32::from_le_bytes(quads[first + i][field].map(i8::cast_unsigned));
                let quad = _mm256_set1_epi32(quad);
                sums[0] = _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(low_trits, quad));
                sums[1] = _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(high_trits, quad));
            }
            // Shifts of 16-bit words: what comes over from the neighbouring byte is masked off.
            (low, high) = (_mm256_srli_epi16::<2>(low), _mm256_srli_epi16::<2>(high));
        }
    }
    sums
}

impl Int8Sums for Avx2 {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { int8_sums(lines, xs) }
    }
}

/// `maddubs` of bytes as they are could saturate: 2 * 255 * 128 is more than 16 bits hold. So the
/// bias comes off, and the activation gives its sign to the weight: `|a|` is the unsigned side (where
/// |-128| has room), and a pair sum is within 2 * 128 * 127 = 32512.
#[inline]
#[target_feature(enable = "avx2")]
fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let tokens = xs.map(|x| &x.codes().as_chunks::<INT8_LINE_COLS>().0[..lines.len()]);
    let bias = _mm256_set1_epi8(BIAS.cast_signed());
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        for (half, bytes) in line.0.as_chunks::<32>().0.iter().enumerate() {
            let weights = _mm256_xor_si256(load(bytes), bias);
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quad = i32::from_le_bytes(codes[i].map(i8::cast_unsigned));
                let quad = _mm256_set1_epi32(quad);
                let signed = _mm256_sign_epi8(weights, quad);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(quad), signed);
                sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    sums.map(|[low, high]| store(low, high))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(low: __m256i, high: __m256i) -> [i32; 16] {
    let mut out = [0_i32; 16];
    for (lanes, out) in [low, high].into_iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), lanes) };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_their_definition_says() {
        if let Some(cpu) = Avx2::detect() {
            crate::lanes::tests::check_lanes(*cpu);
        }
    }
}
