//! Fast random numbers for weights, tokens and workloads.

use wf_model::TokenId;

/// A stream of random numbers (xorshift64), the same on every machine.
pub struct Random(u64);

impl Random {
    /// Returns stream `stream` of a family.
    pub fn new(family: u64, stream: u64) -> Self {
        // Neighbouring streams must not have neighbouring seeds, and no seed may be 0.
        let seed = (family << 32 ^ stream).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Self((seed ^ seed >> 29) | 1);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Fills `trits` with -1, 0 and 1, equally likely to within one percent.
    pub fn fill_trits(&mut self, trits: &mut [i8]) {
        let trit = |byte: u8| ((u16::from(byte) * 3) >> 8) as i8 - 1;
        let (eights, rest) = trits.as_chunks_mut::<8>();
        for eight in eights {
            *eight = self.next().to_le_bytes().map(trit);
        }
        let last = self.next().to_le_bytes().map(trit);
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// Returns a number from -1 to 1.
    pub fn centred(&mut self) -> f32 {
        (self.next() as i32 >> 8) as f32 / (1 << 23) as f32
    }

    /// Returns numbers from -1 to 1.
    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.centred()).collect()
    }

    /// Returns random tokens of a vocabulary.
    pub(crate) fn tokens(&mut self, len: usize, vocab_len: usize) -> Vec<TokenId> {
        (0..len).map(|_| (self.next() % vocab_len as u64) as TokenId).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_from_the_first_number_on() {
        let firsts: std::collections::HashSet<u64> =
            (0..64).flat_map(|f| (0..64).map(move |s| Random::new(f, s).next())).collect();
        assert_eq!(firsts.len(), 64 * 64);
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(1, 2);
        assert!((0..1000).all(|_| (-1.0..=1.0).contains(&random.centred())));
        assert!(random.tokens(1000, 7).iter().all(|&token| token < 7));
    }
}
