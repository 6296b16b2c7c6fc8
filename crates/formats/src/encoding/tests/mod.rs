//! What the codecs promise: every trit at its place, every lie named.

mod absmean;
mod floats;
mod golden;
mod hostile;
mod places;
mod scales;
mod tiled;

use super::{I2sOrder, ScaleUnit, TernaryEncoding};

/// Every encoding there is.
pub(super) const ALL: [TernaryEncoding; 15] = [
    TernaryEncoding::I2s(I2sOrder::Groups128),
    TernaryEncoding::I2s(I2sOrder::Groups64),
    TernaryEncoding::I2s(I2sOrder::FourRows),
    TernaryEncoding::Tq1_0,
    TernaryEncoding::Tq2_0,
    TernaryEncoding::Q2_0 { group_len: 64 },
    TernaryEncoding::Q2_0 { group_len: 128 },
    TernaryEncoding::Iq2Bn,
    TernaryEncoding::Iq1Bn,
    TernaryEncoding::Iq2BnR4,
    TernaryEncoding::HfPacked,
    TernaryEncoding::SglPacked,
    TernaryEncoding::QuadLines(ScaleUnit::Tensor),
    TernaryEncoding::QuadLines(ScaleUnit::Row),
    TernaryEncoding::QuadLines(ScaleUnit::Group(64)),
];

/// A small generator with a seed (`SplitMix64`), so that failures come back.
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
}
