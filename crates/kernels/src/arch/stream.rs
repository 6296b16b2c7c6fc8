//! Measurement of memory bandwidth, the limit that products are compared with.
//!
//! It is measured under the conditions of kernels: the same pages, the widest loads of this CPU, and the
//! same prefetching if that is faster than the hardware alone.

use super::Lines;
use crate::Pool;
use crate::line::Line;

/// Bytes one job reads.
const JOB_BYTES: usize = 256 << 10;

/// A way to read memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Line by line, with hardware prefetching.
    Plain,
    /// Line by line, prefetching as kernels do.
    Prefetch,
}

/// Memory to measure bandwidth on.
pub struct ReadBuffer {
    lines: Lines,
}

impl ReadBuffer {
    /// Allocates and writes at least `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self { lines: Lines::filled(Line([0x5a; 64]), bytes.div_ceil(size_of::<Line>())) }
    }

    /// Returns the number of bytes that one [`read`](Self::read) reads.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Reads all bytes once, on all threads of `pool`.
    pub fn read(&self, pool: &Pool, reading: ReadMode) {
        let jobs = self.lines.chunks(JOB_BYTES / size_of::<Line>());
        pool.run(jobs.len(), |job| {
            let mut jobs = jobs.clone();
            std::hint::black_box(jobs.nth(job).map(|lines| fold(lines, reading)));
        });
    }
}

/// Returns the exclusive or of all words, so that every one is loaded.
fn fold(lines: &[Line], reading: ReadMode) -> u64 {
    match reading {
        #[cfg(target_arch = "x86_64")]
        ReadMode::Prefetch => fold_widest(lines, super::x86_64::prefetch_after),
        // Kernels for other CPUs do not prefetch.
        _ => fold_widest(lines, |_| {}),
    }
}

/// As [`fold`], with the widest loads of this CPU. `ahead` is called with every line.
fn fold_widest(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: just detected.
        return unsafe { fold_with_avx512(lines, ahead) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: just detected.
        return unsafe { fold_with_avx2(lines, ahead) };
    }
    fold_words(lines, ahead)
}

/// As [`fold_widest`], vectorised by the compiler.
#[inline(always)]
fn fold_words(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    let mut folded = [[0; 8]; 4];
    for (i, line) in lines.iter().enumerate() {
        ahead(line);
        for (folded, word) in folded[i % 4].iter_mut().zip(line.0.as_chunks().0) {
            *folded ^= u64::from_le_bytes(*word);
        }
    }
    folded.as_flattened().iter().fold(0, |all, word| all ^ word)
}

/// Written by hand, because compilers prefer registers of half the size.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fold_with_avx512(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    use std::arch::x86_64::*;
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fold_with_avx2(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    fold_words(lines, ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        for len in [0, 1, 3, 4, 9, 100] {
            let mut lines = Lines::filled(Line([0; 64]), len);
            for place in 0..8 * len {
                let (line, byte) = (place / 8, place % 8 * 8 + place % 7);
                lines[line].0[byte] = 1;
                let word = 1 << (8 * (place % 7));
                for reading in [ReadMode::Plain, ReadMode::Prefetch] {
                    assert_eq!(fold(&lines, reading), word, "{place}");
                }
                assert_eq!(fold_words(&lines, |_| {}), word, "{place}");
                lines[line].0[byte] = 0;
            }
        }
    }

    #[test]
    fn a_buffer_has_at_least_the_requested_length() {
        for (requested, got) in [(0, 0), (1, 64), (1 << 20, 1 << 20)] {
            let buffer = ReadBuffer::new(requested);
            assert_eq!(buffer.bytes_len(), got);
            buffer.read(&Pool::new(2), ReadMode::Plain);
        }
    }
}
