//! Tests of all rows of the tables: positions, round trips, hostile bytes.

mod absmean;
mod floats;
mod golden;
mod hostile;
mod positions;
mod scales;
mod tiled;

use std::collections::HashSet;

use super::{FloatEncoding, TernaryEncoding};

/// Every encoding that can be written.
pub(super) fn writable() -> impl Iterator<Item = TernaryEncoding> {
    TernaryEncoding::ALL.iter().copied().filter(|encoding| encoding.is_writable())
}

/// A small generator with a seed (`SplitMix64`), so that failures are reproducible.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(super) fn trits(&mut self, len: usize) -> Vec<i8> {
        (0..len).map(|_| self.below(3) as i8 - 1).collect()
    }

    /// Random trits that an encoding can hold.
    pub(super) fn trits_of(&mut self, encoding: TernaryEncoding, len: usize) -> Vec<i8> {
        let mut trits = self.trits(len);
        if !encoding.has_zero() {
            trits.iter_mut().filter(|trit| **trit == 0).for_each(|trit| *trit = 1);
        }
        trits
    }
}

#[test]
fn labels_and_flags_are_unique() {
    let labels: HashSet<&str> = TernaryEncoding::ALL.iter().map(|e| e.label()).collect();
    assert_eq!(labels.len(), TernaryEncoding::ALL.len());
    for encoding in TernaryEncoding::ALL {
        let Some(flag) = encoding.flag() else { continue };
        assert_eq!(flag.to_uppercase().parse(), Ok(*encoding));
        assert!(encoding.gguf_type().is_some() && encoding.is_writable(), "{encoding}");
        assert!(encoding.scale_unit().is_some(), "{encoding}");
    }
    for float in FloatEncoding::ALL {
        assert_eq!(float.name().parse(), Ok(*float));
        assert_eq!(float.is_plain(), !float.has_codes(), "{float}");
    }
    let error = "q3".parse::<TernaryEncoding>().unwrap_err();
    assert!(error.starts_with("unknown encoding \"q3\", allowed are i2_s, "), "{error}");
}
