//! Reading memory at full bandwidth.

use std::arch::x86_64::*;

use crate::arch::stream::fold_words;
use crate::line::Line;

/// Returns the exclusive or of all words, with the widest loads of this CPU. `ahead` is called with
/// every line.
pub(in crate::arch) fn fold(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: just detected.
        unsafe { with_avx512(lines, ahead) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: just detected.
        unsafe { with_avx2(lines, ahead) }
    } else {
        fold_words(lines, ahead)
    }
}

/// Written by hand, because compilers prefer registers of half the size.
#[target_feature(enable = "avx512f")]
fn with_avx512(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    let (fours, rest) = lines.as_chunks::<4>();
    let mut folded = [_mm512_setzero_si512(); 4];
    for four in fours {
        for (folded, line) in folded.iter_mut().zip(four) {
            ahead(line);
            // SAFETY: a line has 64 bytes; the load needs no alignment.
            let words = unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
            *folded = _mm512_xor_si512(*folded, words);
        }
    }
    let [a, b, c, d] = folded;
    let all = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    let mut line = Line([0; 64]);
    // SAFETY: a line has 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(line.0.as_mut_ptr().cast(), all) };
    fold_words(&[line], |_| {}) ^ fold_words(rest, |_| {})
}

#[target_feature(enable = "avx2")]
fn with_avx2(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    fold_words(lines, ahead)
}
