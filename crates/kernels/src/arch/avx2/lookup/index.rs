//! From the codes of quad lines to indices of table entries.

use std::arch::x86_64::*;

use crate::line::{Line, STRIP};

/// Computes the indices of a line, four for each of sixteen rows: a byte `c0 + 4 c1 + 16 c2 + 64 c3` becomes
/// `c0 + 3 c1 + 9 c2 + 27 c3`. None exceeds 80, whatever the byte.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn index_line(line: &Line, out: &mut [u32; STRIP]) {
    let (halves, out) = (line.0.as_chunks::<32>().0, out.as_chunks_mut::<8>().0);
    for (half, out) in halves.iter().zip(out) {
        let indices = indices_of(half);
        // SAFETY: 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), indices) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn indices_of(bytes: &[u8; 32]) -> __m256i {
    let by_nibble =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 0, 0, 0, 0));
    let nine_times = _mm256_add_epi8(_mm256_slli_epi16::<3>(by_nibble), by_nibble);
    // SAFETY: 32 readable bytes; the load needs no alignment.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    let nibble = _mm256_set1_epi8(0xf);
    let low = _mm256_and_si256(bytes, nibble);
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
    _mm256_add_epi8(_mm256_shuffle_epi8(by_nibble, low), _mm256_shuffle_epi8(nine_times, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::quad_lines::codes;

    #[test]
    fn every_byte_has_the_index_of_its_codes() {
        if !super::super::super::has_avx2() {
            return;
        }
        for start in [0_u8, 64, 128, 192] {
            let line = Line(std::array::from_fn(|i| start + i as u8));
            let mut indices = [0; STRIP];
            // SAFETY: the CPU has AVX2.
            unsafe { index_line(&line, &mut indices) };
            for (byte, index) in
                line.0.iter().zip(indices.iter().flat_map(|word| word.to_le_bytes()))
            {
                let codes = codes(*byte);
                if codes.iter().all(|&code| code < 3) {
                    assert_eq!(index, codes.iter().rev().fold(0, |index, code| 3 * index + code));
                }
                assert!(index < 81, "{index} for {byte}");
            }
        }
    }
}
