//! Checksums that find damaged bytes in `.wf` files, at the speed of memory.
//!
//! Bytes are divided into chunks of 64 KiB. Each chunk has a sum of its own, so that any number of
//! threads can work on one tensor, and the checksum is the sum of these sums. Damage goes unnoticed once
//! in 2^64 times. A checksum is no signature: it is easy to construct bytes that have a given one.

use std::fmt::Write;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::size;

/// Bytes of a chunk: as many as stay in the cache of a core while they are summed and used.
pub(crate) const CHUNK_LEN: usize = 64 * 1024;

/// The algorithm of checksums, which depends on the version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Version 1. Such files are only read.
    Multiply,
    /// Version 2: xxh3-64 of each chunk; then of the length and these sums, as little-endian u64.
    Xxh3,
}

/// A checksum as a file states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) value: u64,
}

impl Checksum {
    /// Returns an error message if the bytes have another checksum.
    pub(crate) fn check(self, found: u64) -> Result<(), String> {
        if self.value == found {
            return Ok(());
        }
        let expected = self.value;
        Err(format!("is damaged: checksum {found:016x}, expected {expected:016x}"))
    }
}

impl Algorithm {
    pub(crate) fn of(self, bytes: &[u8]) -> u64 {
        let sums = bytes.chunks(CHUNK_LEN).map(|chunk| self.of_chunk(chunk));
        self.join(sums, size::widen(bytes.len()))
    }

    /// Returns the sum of at most [`CHUNK_LEN`] bytes.
    pub(crate) fn of_chunk(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Multiply => multiply::of_chunk(bytes),
            Self::Xxh3 => xxh3_64(bytes),
        }
    }

    /// Returns the checksum of `len` bytes whose chunks have these sums.
    pub(crate) fn join(self, sums: impl Iterator<Item = u64>, len: u64) -> u64 {
        match self {
            Self::Multiply => multiply::join(sums, len),
            Self::Xxh3 => {
                let mut joined = Xxh3::new();
                joined.update(&len.to_le_bytes());
                sums.for_each(|sum| joined.update(&sum.to_le_bytes()));
                joined.digest()
            }
        }
    }
}

/// Returns the checksum of bytes, as `.wf` files have it for tensors: xxh3-64 of chunks of 64 KiB, then of the
/// length and these sums.
pub fn checksum(bytes: &[u8]) -> u64 {
    Hasher::of(bytes)
}

/// Computes the checksum of bytes that arrive in parts, as files are written with.
#[derive(Debug, Default)]
pub(crate) struct Hasher {
    sums: Vec<u64>,
    chunk: Vec<u8>,
    len: u64,
}

impl Hasher {
    const ALGORITHM: Algorithm = Algorithm::Xxh3;

    pub(crate) fn of(bytes: &[u8]) -> u64 {
        Self::ALGORITHM.of(bytes)
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.len = self.len.saturating_add(size::widen(bytes.len()));
        while !bytes.is_empty() {
            let room = CHUNK_LEN.saturating_sub(self.chunk.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_LEN {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        self.sums.push(Self::ALGORITHM.of_chunk(&self.chunk));
        self.chunk.clear();
    }

    pub(crate) fn finish(mut self) -> u64 {
        if !self.chunk.is_empty() {
            self.end_chunk();
        }
        Self::ALGORITHM.join(self.sums.into_iter(), self.len)
    }
}

/// The algorithm of version 1: eight lanes of multiplications, folded into one.
mod multiply {
    use crate::size;

    /// 2^64 divided by the golden ratio, made odd.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn step(sum: u64, word: u64) -> u64 {
        let product = u128::from(sum ^ word).wrapping_mul(u128::from(FACTOR));
        (product as u64) ^ (product >> 64) as u64
    }

    pub(super) fn of_chunk(bytes: &[u8]) -> u64 {
        let mut lanes = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut add = |line: &[u8; 64]| {
            for (lane, word) in lanes.iter_mut().zip(line.as_chunks().0) {
                *lane = step(*lane, u64::from_le_bytes(*word));
            }
        };
        let (lines, rest) = bytes.as_chunks();
        lines.iter().for_each(&mut add);
        let mut last = [0; 64];
        last.iter_mut().zip(rest).for_each(|(last, byte)| *last = *byte);
        add(&last);
        join(lanes.into_iter(), size::widen(bytes.len()))
    }

    pub(super) fn join(sums: impl Iterator<Item = u64>, len: u64) -> u64 {
        sums.fold(step(1, len), step)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "on samples whose length is known"
    )]

    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn digests_are_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&Sha256::digest(b"")), empty);
    }

    const ALGORITHMS: [Algorithm; 2] = [Algorithm::Multiply, Algorithm::Xxh3];

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * at / 7 + at) as u8).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn the_parts_that_bytes_arrive_in_do_not_matter() {
        let bytes = sample(2 * CHUNK_LEN + 77);
        let expected = Hasher::of(&bytes);
        for part in [1000, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, bytes.len()] {
            let mut hasher = Hasher::default();
            bytes.chunks(part).for_each(|part| hasher.add(part));
            assert_eq!(hasher.finish(), expected, "parts of {part}");
        }
        assert_eq!(Hasher::of(b""), Hasher::default().finish());
    }

    /// Files depend on these numbers.
    #[test]
    fn checksums_are_as_documented() {
        let hex = |algorithm: Algorithm, bytes: &[u8]| format!("{:016x}", algorithm.of(bytes));
        assert_eq!(hex(Algorithm::Multiply, b"WrinkleFree"), "36d2b8db83168536");
        assert_eq!(hex(Algorithm::Xxh3, b"WrinkleFree"), "3a0e2bd2e199e3cc");
        let sum = xxh3_64(b"WrinkleFree");
        let joined = [11_u64.to_le_bytes(), sum.to_le_bytes()].concat();
        assert_eq!(Algorithm::Xxh3.of(b"WrinkleFree"), xxh3_64(&joined));
        if cfg!(miri) {
            return; // Chunks of 64 KiB take minutes.
        }
        let chunks = sample(2 * CHUNK_LEN + 77);
        assert_eq!(hex(Algorithm::Multiply, &chunks), "db367907769209c1");
        assert_eq!(hex(Algorithm::Xxh3, &chunks), "3303f7b51ae21baf");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn every_flipped_bit_and_every_swap_shows() {
        for algorithm in ALGORITHMS {
            let bytes = sample(300);
            let mut seen = std::collections::HashSet::from([algorithm.of(&bytes)]);
            for bit in 0..8 * bytes.len() {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(algorithm.of(&changed)), "bit {bit}");
            }
            // The upper bits of words of one lane, which multiplying alone would let cancel.
            let mut changed = bytes.clone();
            changed[7] ^= 128;
            changed[64 + 7] ^= 128;
            assert!(seen.insert(algorithm.of(&changed)));
            let mut swapped = bytes.clone();
            let (first, second) = swapped.split_at_mut(64);
            first.swap_with_slice(&mut second[..64]);
            assert!(seen.insert(algorithm.of(&swapped)));
            assert!(seen.insert(algorithm.of(&bytes[..299])));
            let longer = [&bytes[..], &[0]].concat();
            assert!(seen.insert(algorithm.of(&longer)), "a zero more");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn swapped_chunks_show() {
        let bytes = sample(2 * CHUNK_LEN);
        let swapped = [&bytes[CHUNK_LEN..], &bytes[..CHUNK_LEN]].concat();
        for algorithm in ALGORITHMS {
            assert_ne!(algorithm.of(&bytes), algorithm.of(&swapped));
        }
    }
}
