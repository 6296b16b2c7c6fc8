//! Memory that is read as weights are: the limit every product is measured against.
//!
//! A limit must have what the kernels have, or they would seem to beat it: the same pages, the widest
//! loads of this CPU, and the same asking ahead, if that is faster than what the CPU does by itself.

use super::Lines;
use crate::Pool;
use crate::line::Line;

/// Bytes one job reads.
const JOB_BYTES: usize = 256 << 10;

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Line after line: the CPU sees what comes next.
    Plain,
    /// As kernels do it, asking for lines to come.
    AskingAhead,
}

/// Memory to measure reading on.
pub struct ReadBuffer {
    lines: Lines,
}

impl ReadBuffer {
    /// At least `bytes` bytes, all of them written, so that they exist.
    pub fn new(bytes: usize) -> Self {
        Self { lines: Lines::filled(Line([0x5a; 64]), bytes.div_ceil(size_of::<Line>())) }
    }

    /// Bytes that one [`read`](Self::read) reads.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Reads everything once, on all threads of `pool`, and does next to nothing with it.
    pub fn read(&self, pool: &Pool, reading: Reading) {
        let jobs = self.lines.chunks(JOB_BYTES / size_of::<Line>());
        pool.run(jobs.len(), |job| {
            let mut jobs = jobs.clone();
            std::hint::black_box(jobs.nth(job).map(|lines| fold(lines, reading)));
        });
    }
}

/// The exclusive or of all words, so that every one has to be looked at.
fn fold(lines: &[Line], reading: Reading) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return match reading {
        Reading::Plain => super::x86_64::fold(lines, |_| {}),
        Reading::AskingAhead => super::x86_64::fold(lines, super::x86_64::prefetch_after),
    };
    // Kernels for other CPUs do not ask ahead.
    #[cfg(not(target_arch = "x86_64"))]
    return match reading {
        Reading::Plain | Reading::AskingAhead => fold_words(lines, |_| {}),
    };
}

/// As [`fold`], in what the compiler makes of it for the CPU it is compiled for. `ahead` is told of
/// every line.
#[inline(always)]
pub(super) fn fold_words(lines: &[Line], ahead: impl Fn(&Line)) -> u64 {
    let mut folded = [[0; 8]; 4];
    for (i, line) in lines.iter().enumerate() {
        ahead(line);
        for (folded, word) in folded[i % 4].iter_mut().zip(line.0.as_chunks().0) {
            *folded ^= u64::from_le_bytes(*word);
        }
    }
    folded.as_flattened().iter().fold(0, |all, word| all ^ word)
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
                for reading in [Reading::Plain, Reading::AskingAhead] {
                    assert_eq!(fold(&lines, reading), word, "{place}");
                }
                assert_eq!(fold_words(&lines, |_| {}), word, "{place}");
                lines[line].0[byte] = 0;
            }
        }
    }

    #[test]
    fn a_buffer_is_at_least_as_long_as_asked_for() {
        for (asked, got) in [(0, 0), (1, 64), (1 << 20, 1 << 20)] {
            let buffer = ReadBuffer::new(asked);
            assert_eq!(buffer.bytes_len(), got);
            buffer.read(&Pool::new(2), Reading::Plain);
        }
    }
}
