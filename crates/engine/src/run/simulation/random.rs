//! Random decisions of a simulation.

/// A stream of random numbers (SplitMix64).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Returns stream `stream` of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        Self(random.next() ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number of `min..=max`.
    pub(super) fn between(&mut self, min: usize, max: usize) -> usize {
        min + (self.next() % (max - min + 1) as u64) as usize
    }

    /// Returns `true` once in `times` calls.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.between(1, times) == 1
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.between(0, from.len() - 1)]
    }
}
