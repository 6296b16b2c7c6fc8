//! The float operations that instruction sets provide, on sixteen lanes.
//!
//! A [`Simd`] proves that the CPU has an instruction set, and only it creates lanes, so lanes prove it
//! as well. Every operation is defined to the last bit, except for the payload of a NaN: code written
//! over these traits gives the same result on every CPU.
//!
//! All functions are `inline(always)`: they become instructions of the one function around them that
//! is compiled for the instruction set.

use crate::arch::Plain;

/// The factor that lanes of [`Simd::load_e4m3`] must be multiplied by.
pub(crate) const E4M3_LOADED: f32 = 256.0;

/// Creates lanes of one instruction set.
pub(crate) trait Simd: Copy {
    /// The lanes of this instruction set.
    type Lanes: F32x16;

    /// True if sixteen registers of lanes fit into the register file, with some to spare.
    const MANY_REGISTERS: bool = false;

    /// Returns the same value in each lane.
    fn splat(self, value: f32) -> Self::Lanes;

    /// Loads sixteen floats.
    fn load(self, values: &[f32; 16]) -> Self::Lanes;

    /// Loads sixteen integers, each rounded to the nearest float.
    fn load_i32(self, values: &[i32; 16]) -> Self::Lanes;

    /// Loads sixteen small integers.
    #[inline(always)]
    fn load_i8(self, values: &[i8; 16]) -> Self::Lanes {
        self.load_i32(&values.map(i32::from))
    }

    /// Loads sixteen bf16 values.
    fn load_bf16(self, values: &[u16; 16]) -> Self::Lanes;

    /// Loads sixteen pairs of bf16 values: the first of each pair, and the second.
    fn load_bf16_pairs(self, pairs: &[[u16; 2]; 16]) -> [Self::Lanes; 2];

    /// Loads sixteen f16 values, with the bits of [`crate::half::f16_to_f32`].
    fn load_f16(self, values: &[u16; 16]) -> Self::Lanes;

    /// Loads sixteen e4m3 codes, each as 1/256 ([`E4M3_LOADED`]) of its value: a shift then turns them
    /// into f16 values, subnormals included. NaN is loaded as 480.
    #[inline(always)]
    fn load_e4m3(self, codes: &[u8; 16]) -> Self::Lanes {
        let mut bits = [0; 16];
        for (bits, code) in bits.iter_mut().zip(codes) {
            *bits = u16::from(code & 0x80) << 8 | u16::from(code & 0x7f) << 7;
        }
        self.load_f16(&bits)
    }

    /// Loads sixteen e5m2 codes.
    #[inline(always)]
    fn load_e5m2(self, codes: &[u8; 16]) -> Self::Lanes {
        let mut bits = [0; 16];
        for (bits, code) in bits.iter_mut().zip(codes) {
            *bits = u16::from(*code) << 8;
        }
        self.load_f16(&bits)
    }

    /// Returns `x * 2^n`, rounded once, for magnitudes of `x` from 1/2 to 2 and integers `n` of -150..=128. NaN stays NaN.
    #[inline(always)]
    fn mul_exp2(self, x: Self::Lanes, n: Self::Lanes) -> Self::Lanes {
        // In two steps, because neither 2^128 nor 2^-150 is a float. The first step is exact.
        let half = n.mul(self.splat(0.5)).round();
        x.mul(half.exp2_of_integer()).mul(n.sub(half).exp2_of_integer())
    }

    /// Prefetches a slice, on CPUs where that helps.
    #[inline(always)]
    fn prefetch<T>(self, _ahead: &[T]) {}

    /// Loads fewer than sixteen floats and fills the other lanes with `pad`.
    #[inline(always)]
    fn load_tail(self, values: &[f32], pad: f32) -> Self::Lanes {
        let mut lanes = [pad; 16];
        lanes[..values.len()].copy_from_slice(values);
        self.load(&lanes)
    }
}

/// Sixteen lanes of single precision.
pub(crate) trait F32x16: Copy {
    fn store(self, out: &mut [f32; 16]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;

    /// `self * factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `if self > other { self } else { other }`: the second if either is NaN.
    fn max(self, other: Self) -> Self;

    /// `if self < other { self } else { other }`: the second if either is NaN.
    fn min(self, other: Self) -> Self;

    /// Returns the larger magnitude; NaN is larger than everything.
    fn max_abs(self, other: Self) -> Self;

    /// Rounds to the nearest integer, halves to even.
    fn round(self) -> Self;

    /// Returns 2 to the power of each lane, which is an integer of -126..=127; any float otherwise.
    fn exp2_of_integer(self) -> Self;

    /// Stores each lane, which is an integer of -128..=127, as a byte.
    fn store_i8(self, out: &mut [i8; 16]);

    /// Stores each lane, which is an integer of -32768..=32767, as 16 bits; any number otherwise.
    #[inline(always)]
    fn store_i16(self, out: &mut [i16; 16]) {
        let mut lanes = [0.0; 16];
        self.store(&mut lanes);
        for (out, lane) in out.iter_mut().zip(lanes) {
            *out = lane as i16;
        }
    }

    /// Stores the first `out.len()` lanes.
    #[inline(always)]
    fn store_tail(self, out: &mut [f32]) {
        let mut lanes = [0.0; 16];
        self.store(&mut lanes);
        out.copy_from_slice(&lanes[..out.len()]);
    }

    /// Returns a bit for each lane, the lowest for the first: 0 if it is zero or less, otherwise 1, also for a NaN.
    #[inline(always)]
    fn not_closed(self) -> u16 {
        let mut lanes = [0.0; 16];
        self.store(&mut lanes);
        lanes.iter().rev().fold(0, |bits, lane| bits << 1 | u16::from(!is_closed(*lane)))
    }

    /// Adds up all lanes in a fixed tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    #[inline(always)]
    fn sum(self) -> f32 {
        let mut lanes = [0.0; 16];
        self.store(&mut lanes);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }
}

/// Returns `true` for a gate that squared ReLU turns to zero. A NaN stays one.
#[inline(always)]
fn is_closed(gate: f32) -> bool {
    gate <= 0.0
}

/// A storage type of floats.
pub(crate) trait Stored {
    type Bits: Plain + Default;
    fn load<S: Simd>(cpu: S, values: &[Self::Bits; 16]) -> S::Lanes;

    /// Loads fewer than sixteen values and fills the other lanes with +0.
    #[inline(always)]
    fn load_tail<S: Simd>(cpu: S, values: &[Self::Bits]) -> S::Lanes {
        let mut lanes = [Self::Bits::default(); 16];
        lanes[..values.len()].copy_from_slice(values);
        Self::load(cpu, &lanes)
    }
}

/// Defines the types that floats are stored as, by the load of [`Simd`] for each.
macro_rules! stored {
    ($($(#[$doc:meta])* $name:ident: $bits:ty = $load:ident;)*) => {
        $($(#[$doc])*
        pub(crate) struct $name;

        impl Stored for $name {
            type Bits = $bits;

            #[inline(always)]
            fn load<S: Simd>(cpu: S, values: &[$bits; 16]) -> S::Lanes {
                cpu.$load(values)
            }
        })*
    };
}

stored! {
    /// Stored as single precision.
    AsF32: f32 = load;
    /// Stored as bf16.
    AsBf16: u16 = load_bf16;
    /// Stored as f16.
    AsF16: u16 = load_f16;
    /// Stored as e4m3, loaded as 1/256 of it.
    AsE4m3: u8 = load_e4m3;
    /// Stored as e5m2.
    AsE5m2: u8 = load_e5m2;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fp8::{e4m3_to_f32, e5m2_to_f32};
    use crate::half::{bf16_to_f32, f16_to_f32};

    const NUMBERS: [f32; 32] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        -2.5,
        0.499_999_97,
        126.0,
        -126.0,
        127.0,
        -128.0,
        3.7,
        -3.7,
        8_388_607.5,
        1e10,
        -1e10,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        1e-40,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        1.000_000_1,
        0.333_333_34,
    ];

    fn assert_lanes<L: F32x16>(found: L, expected: [f32; 16], what: &str) {
        let mut lanes = [0.0; 16];
        found.store(&mut lanes);
        for (found, expected) in lanes.into_iter().zip(expected) {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{what}: {found:e} is not {expected:e}");
        }
    }

    /// Checks every operation of an instruction set against its definition, on all pairs of special
    /// numbers.
    pub(crate) fn check_lanes<S: Simd>(cpu: S) {
        check_widening(cpu);
        check_fp8(cpu);
        check_integers(cpu);
        check_powers(cpu);
        // 16,777,217 and its likes lie between two floats.
        let integers = std::array::from_fn(|i| (i as i32 - 8) * 0x0700_0001 + (i as i32 & 1));
        assert_lanes(cpu.load_i32(&integers), integers.map(|n| n as f32), "load_i32");
        for shift in 0..NUMBERS.len() {
            let number = |i: usize| NUMBERS[i % NUMBERS.len()];
            for start in [0, 16] {
                let a: [f32; 16] = std::array::from_fn(|i| number(start + i));
                let b: [f32; 16] = std::array::from_fn(|i| number(start + i + shift));
                let c: [f32; 16] = std::array::from_fn(|i| number(start + i + 3 * shift + 1));
                check_arithmetic(cpu, a, b, c);
            }
        }
    }

    fn check_arithmetic<S: Simd>(cpu: S, a: [f32; 16], b: [f32; 16], c: [f32; 16]) {
        let (x, y, z) = (cpu.load(&a), cpu.load(&b), cpu.load(&c));
        let expect = |f: fn(f32, f32) -> f32| std::array::from_fn(|i| f(a[i], b[i]));
        assert_lanes(x, a, "load");
        assert_lanes(x.add(y), expect(|a, b| a + b), "add");
        assert_lanes(x.sub(y), expect(|a, b| a - b), "sub");
        assert_lanes(x.mul(y), expect(|a, b| a * b), "mul");
        assert_lanes(x.div(y), expect(|a, b| a / b), "div");
        assert_lanes(x.max(y), expect(|a, b| if a > b { a } else { b }), "max");
        assert_lanes(x.min(y), expect(|a, b| if a < b { a } else { b }), "min");
        let larger = |a: f32, b: f32| f32::from_bits(a.abs().to_bits().max(b.abs().to_bits()));
        assert_lanes(x.max_abs(y), expect(larger), "max_abs");
        assert_lanes(x.round(), a.map(f32::round_ties_even), "round");
        let fused = std::array::from_fn(|i| a[i].mul_add(b[i], c[i]));
        assert_lanes(x.mul_add(y, z), fused, "mul_add");
        assert_lanes(cpu.splat(a[0]), [a[0]; 16], "splat");

        let mut folded = a;
        for half in [8, 4, 2, 1] {
            folded = std::array::from_fn(|i| folded[i % half] + folded[i % half + half]);
        }
        assert_lanes(cpu.splat(x.sum()), folded, "sum");
    }

    /// All short floats, also the NaN, bit for bit.
    fn check_widening<S: Simd>(cpu: S) {
        for start in (0..=u16::MAX).step_by(16) {
            let bits: [u16; 16] = std::array::from_fn(|i| start + i as u16);
            let (mut bf16, mut f16) = ([0.0; 16], [0.0; 16]);
            cpu.load_bf16(&bits).store(&mut bf16);
            cpu.load_f16(&bits).store(&mut f16);
            assert_eq!(bf16.map(f32::to_bits), bits.map(|bits| bf16_to_f32(bits).to_bits()));
            assert_eq!(f16.map(f32::to_bits), bits.map(|bits| f16_to_f32(bits).to_bits()));
            let pairs = bits.map(|bits| [bits, !bits]);
            let [mut first, mut second] = [[0.0; 16]; 2];
            let [evens, odds] = cpu.load_bf16_pairs(&pairs);
            evens.store(&mut first);
            odds.store(&mut second);
            assert_eq!(first.map(f32::to_bits), bf16.map(f32::to_bits));
            assert_eq!(second.map(f32::to_bits), bits.map(|bits| bf16_to_f32(!bits).to_bits()));
        }
    }

    /// All eight-bit floats but the NaN of e4m3.
    fn check_fp8<S: Simd>(cpu: S) {
        for start in (0..=u8::MAX).step_by(16) {
            let codes: [u8; 16] = std::array::from_fn(|i| start + i as u8);
            assert_lanes(cpu.load_e5m2(&codes), codes.map(e5m2_to_f32), "load_e5m2");
            let expected = codes.map(|code| match e4m3_to_f32(code) {
                nan if nan.is_nan() => {
                    if code == 0x7f {
                        480.0
                    } else {
                        -480.0
                    }
                }
                value => value,
            });
            let loaded = cpu.load_e4m3(&codes).mul(cpu.splat(E4M3_LOADED));
            assert_lanes(loaded, expected, "load_e4m3");
        }
    }

    /// Products with powers of two, with all that overflow and become subnormal.
    fn check_powers<S: Simd>(cpu: S) {
        for n in -150..=128 {
            let numbers: [f32; 16] = std::array::from_fn(|i| match i {
                0 => 0.5,
                1 => 1.5,
                2 => 1.25,
                3 => f32::NAN,
                _ => (0.7 + 0.043 * i as f32) * if i % 2 == 0 { 1.0 } else { -1.0 },
            });
            // A product of doubles is exact, so that it is rounded once.
            let power = f64::from_bits(((n + 1023) as u64) << 52);
            let expected = numbers.map(|x| (f64::from(x) * power) as f32);
            let found = cpu.mul_exp2(cpu.load(&numbers), cpu.splat(n as f32));
            assert_lanes(found, expected, "mul_exp2");
        }
    }

    fn check_integers<S: Simd>(cpu: S) {
        for start in (-32768..32768).step_by(16) {
            let integers: [i32; 16] = std::array::from_fn(|i| start + i as i32);
            let mut words = [0; 16];
            cpu.load_i32(&integers).store_i16(&mut words);
            assert_eq!(words.map(i32::from), integers);
        }
        for start in (-128..128).step_by(16) {
            let integers: [i32; 16] = std::array::from_fn(|i| start + i as i32);
            let lanes = cpu.load(&integers.map(|n| n as f32));
            let mut bytes = [0; 16];
            lanes.store_i8(&mut bytes);
            assert_eq!(bytes.map(i32::from), integers);
            assert_lanes(cpu.load_i8(&bytes), integers.map(|n| n as f32), "load_i8");
            if start >= -112 {
                // A power of two is its exponent; `powi` promises no exact result.
                let powers = integers.map(|n| f32::from_bits(((n + 127) as u32) << 23));
                assert_lanes(lanes.exp2_of_integer(), powers, "exp2");
            }
        }
    }
}
