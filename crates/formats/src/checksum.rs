//! A sum that finds damage, at the speed of memory.
//!
//! Bytes are cut into pieces of 64 KiB. Each piece has a sum of its own, so that any number of threads
//! can work on one tensor, and the sum of the whole is that of the sums. Damage is missed once in 2^64
//! times. It is no signature: whoever wants to can make bytes of any sum.

use crate::size;

/// Bytes of a piece: as many as stay in the cache of a core while they are summed and used.
pub(crate) const PIECE_LEN: usize = 64 * 1024;

/// 2^64 divided by the golden ratio, made odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sums that run side by side, because each step waits for the one before it.
const LANES: usize = 8;

fn step(sum: u64, word: u64) -> u64 {
    // The lower half of a product alone would carry a change upwards only: of two bits that change
    // in neighbouring steps, the second could undo the first.
    let product = u128::from(sum ^ word).wrapping_mul(u128::from(FACTOR));
    (product as u64) ^ (product >> 64) as u64
}

/// The sum of at most [`PIECE_LEN`] bytes.
pub(crate) fn of_piece(bytes: &[u8]) -> u64 {
    let mut lanes = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut add = |line: &[u8; 8 * LANES]| {
        for (lane, word) in lanes.iter_mut().zip(line.as_chunks().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    };
    let (lines, rest) = bytes.as_chunks();
    lines.iter().for_each(&mut add);
    let mut last = [0; 8 * LANES];
    last.iter_mut().zip(rest).for_each(|(last, byte)| *last = *byte);
    add(&last);
    fold(lanes.into_iter(), size::widen(bytes.len()))
}

/// The sum of a whole whose pieces have these sums.
pub(crate) fn of_pieces(sums: impl Iterator<Item = u64>, len: u64) -> u64 {
    fold(sums, len)
}

fn fold(sums: impl Iterator<Item = u64>, len: u64) -> u64 {
    sums.fold(step(1, len), step)
}

/// The sum of bytes that come one after the other.
#[derive(Debug, Default)]
pub(crate) struct Checksum {
    sums: Vec<u64>,
    piece: Vec<u8>,
    len: u64,
}

impl Checksum {
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        of_pieces(bytes.chunks(PIECE_LEN).map(of_piece), size::widen(bytes.len()))
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.len = self.len.saturating_add(size::widen(bytes.len()));
        while !bytes.is_empty() {
            let room = PIECE_LEN.saturating_sub(self.piece.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_LEN {
                self.end_piece();
            }
        }
    }

    fn end_piece(&mut self) {
        self.sums.push(of_piece(&self.piece));
        self.piece.clear();
    }

    pub(crate) fn finish(mut self) -> u64 {
        if !self.piece.is_empty() {
            self.end_piece();
        }
        of_pieces(self.sums.into_iter(), self.len)
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "on samples whose length is known"
)]
mod tests {
    use super::*;

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * at / 7 + at) as u8).collect()
    }

    #[test]
    fn bytes_have_one_sum_however_they_come() {
        let bytes = sample(2 * PIECE_LEN + 77);
        let whole = Checksum::of(&bytes);
        for part in [1000, PIECE_LEN - 1, PIECE_LEN, PIECE_LEN + 1, bytes.len()] {
            let mut sum = Checksum::default();
            bytes.chunks(part).for_each(|part| sum.add(part));
            assert_eq!(sum.finish(), whole, "parts of {part}");
        }
        // The format promises these numbers.
        assert_eq!(Checksum::of(b""), Checksum::default().finish());
        assert_eq!(format!("{:016x}", Checksum::of(b"WrinkleFree")), "36d2b8db83168536");
    }

    #[test]
    fn every_flipped_bit_and_every_swap_shows() {
        let bytes = sample(300);
        let sum = Checksum::of(&bytes);
        let mut seen = std::collections::HashSet::from([sum]);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(Checksum::of(&changed)), "bit {bit}");
        }
        // The upper bits of words of one lane, which multiplying alone would let cancel.
        let mut changed = bytes.clone();
        changed[7] ^= 128;
        changed[64 + 7] ^= 128;
        assert!(seen.insert(Checksum::of(&changed)));
        let mut swapped = bytes.clone();
        let (first, second) = swapped.split_at_mut(64);
        first.swap_with_slice(&mut second[..64]);
        assert!(seen.insert(Checksum::of(&swapped)));
        assert!(seen.insert(Checksum::of(&bytes[..299])));
        let longer = [&bytes[..], &[0]].concat();
        assert!(seen.insert(Checksum::of(&longer)), "a zero more");
    }

    #[test]
    fn swapped_pieces_show() {
        let bytes = sample(2 * PIECE_LEN);
        let swapped = [&bytes[PIECE_LEN..], &bytes[..PIECE_LEN]].concat();
        assert_ne!(Checksum::of(&bytes), Checksum::of(&swapped));
    }
}
