//! Random numbers, quickly: weights and tokens that only have to look like any others.

use wf_model::TokenId;

/// A stream of random numbers (xorshift).
pub(crate) struct Random(u64);

impl Random {
    /// Stream number `stream` of a family.
    pub(crate) fn new(family: u64, stream: u64) -> Self {
        // Neighbouring numbers must not start neighbouring streams, and none may start at zero.
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

    /// Trits, each as likely as the others to within a hundredth.
    pub(super) fn fill_trits(&mut self, trits: &mut [i8]) {
        let trit = |byte: u8| ((u16::from(byte) * 3) >> 8) as i8 - 1;
        let (eights, rest) = trits.as_chunks_mut::<8>();
        for eight in eights {
            *eight = self.next().to_le_bytes().map(trit);
        }
        let last = self.next().to_le_bytes().map(trit);
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// A number from -1 to 1.
    pub(super) fn centred(&mut self) -> f32 {
        (self.next() as i32 >> 8) as f32 / (1 << 23) as f32
    }

    /// Some tokens of a vocabulary.
    pub(super) fn tokens(&mut self, len: usize, vocab_len: usize) -> Vec<TokenId> {
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
