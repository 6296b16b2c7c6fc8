//! Keys of random numbers that depend only on seed, choice and position.
//!
//! Philox 4×32-10 maps a counter to four words and has no state, so a seed gives the same text under any load,
//! batch or cache state.

use wf_model::NoiseKey;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        }
        let wide = |m: u32, c: u32| u64::from(m) * u64::from(c);
        let (a, b) = (wide(MULTIPLIERS[0], counter[0]), wide(MULTIPLIERS[1], counter[2]));
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

/// Returns the key of the noise for the token at `position` of choice `choice`.
pub(crate) fn noise_key(seed: u64, choice: u32, position: usize) -> NoiseKey {
    let position = position as u64;
    let counter = [position as u32, (position >> 32) as u32, choice, 0];
    NoiseKey(philox(counter, [seed as u32, (seed >> 32) as u32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Test vectors of Random123.
    #[test]
    fn it_is_philox_4x32_10() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn every_input_changes_the_key() {
        let key = noise_key(7, 0, 1);
        assert_eq!(key, noise_key(7, 0, 1));
        for other in [noise_key(8, 0, 1), noise_key(7, 1, 1), noise_key(7, 0, 2)] {
            assert_ne!(key, other);
        }
    }
}
