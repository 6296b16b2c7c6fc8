//! Numbers and shapes for the tests: always the same ones, on every machine.

pub(crate) mod pages;

use wf_kernels::half::{self, encode_bf16, encode_f16};
use wf_kernels::{
    FloatRows, Int8Matrix, Layout, NibbleMatrix, Pool, QuantRow, Scales, TernaryMatrix,
};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn floats(&mut self, len: usize, kind: Floats) -> Vec<f32> {
        (0..len).map(|_| self.float(kind)).collect()
    }

    fn float(&mut self, kind: Floats) -> f32 {
        match kind {
            Floats::Plain => self.unit() * 4.0,
            Floats::Wide => self.unit() * 10.0_f32.powi(self.below(21) as i32 - 10),
            Floats::Subnormal => f32::from_bits(self.bits() as u32 & 0x807f_ffff),
            Floats::Finite => loop {
                let x = f32::from_bits(self.bits() as u32);
                if x.is_finite() {
                    return x;
                }
            },
            Floats::Special => {
                let special = [
                    0.0,
                    -0.0,
                    1.0,
                    -1.0,
                    f32::MAX,
                    f32::MIN,
                    f32::MIN_POSITIVE,
                    1e-45,
                    -1e-45,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    f32::NAN,
                    88.8,
                    -88.8,
                    -103.5,
                ];
                special[self.below(special.len())]
            }
        }
    }

    pub(crate) fn trits(&mut self, len: usize) -> Vec<i8> {
        (0..len).map(|_| self.below(3) as i8 - 1).collect()
    }

    pub(crate) fn codes(&mut self, len: usize) -> Vec<i8> {
        (0..len).map(|_| self.bits() as i8).collect()
    }

    /// Codes of an int8 matrix: -127..=127.
    pub(crate) fn weight_codes(&mut self, len: usize) -> Vec<i8> {
        (0..len).map(|_| (self.bits() as i8).max(-127)).collect()
    }

    /// Codes of a nibble matrix: 0..=15.
    pub(crate) fn nibbles(&mut self, len: usize) -> Vec<i8> {
        (0..len).map(|_| self.below(16) as i8).collect()
    }

    /// Scales of each kind that fits the shape.
    pub(crate) fn scales(&mut self, rows: usize, cols: usize) -> [Scales; 5] {
        let mut groups = |len: usize| Scales::Groups {
            len,
            values: self.floats(rows * cols.div_ceil(len), Floats::Plain),
        };
        let groups = [groups(64), groups(128), groups(256)];
        let [a, b, c] = groups;
        [Scales::Tensor(self.unit()), Scales::Rows(self.floats(rows, Floats::Plain)), a, b, c]
    }

    /// Scales per group that f16 holds, which are stored as such.
    pub(crate) fn half_scales(&mut self, rows: usize, cols: usize) -> [Scales; 3] {
        let round = |scale: f32| half::f16_to_f32(half::f32_to_f16(scale));
        [64, 128, 256].map(|len| {
            let values = self.floats(rows * cols.div_ceil(len), Floats::Plain);
            Scales::Groups { len, values: values.into_iter().map(round).collect() }
        })
    }
}

/// Distribution of random floats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floats {
    Plain,
    /// Twenty decades.
    Wide,
    Subnormal,
    /// Any bits that are not NaN or infinite.
    Finite,
    /// Zeros, limits, infinities, NaN.
    Special,
}

impl Floats {
    pub(crate) const ALL: [Self; 5] =
        [Self::Plain, Self::Wide, Self::Subnormal, Self::Finite, Self::Special];
}

/// The same floats in one of the ways they can be stored.
pub(crate) enum Rows {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    F16(Vec<u16>),
}

impl Rows {
    pub(crate) fn each(values: &[f32]) -> [Self; 3] {
        let (mut bf16, mut f16) = (vec![0; values.len()], vec![0; values.len()]);
        encode_bf16(values, &mut bf16);
        encode_f16(values, &mut f16);
        [Self::F32(values.to_vec()), Self::Bf16(bf16), Self::F16(f16)]
    }

    pub(crate) fn view(&self) -> FloatRows<'_> {
        match self {
            Self::F32(values) => FloatRows::F32(values),
            Self::Bf16(bits) => FloatRows::Bf16(bits),
            Self::F16(bits) => FloatRows::F16(bits),
        }
    }

    /// As floats again.
    pub(crate) fn values(&self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.clone(),
            Self::Bf16(bits) => bits.iter().map(|&b| half::bf16_to_f32(b)).collect(),
            Self::F16(bits) => bits.iter().map(|&b| half::f16_to_f32(b)).collect(),
        }
    }
}

/// Every layout there is.
pub(crate) const LAYOUTS: [Layout; 2] = [Layout::QuadLines, Layout::FiveTrits];

/// A matrix of these trits.
pub(crate) fn matrix(layout: Layout, trits: &[i8], cols: usize, scales: Scales) -> TernaryMatrix {
    let mut matrix = TernaryMatrix::with_layout(layout, trits.len() / cols, cols, scales);
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        out.copy_from_slice(&trits[rows.start * cols..rows.end * cols]);
        Ok::<(), ()>(())
    };
    matrix.fill(&Pool::new(1), read).expect("reading cannot fail");
    matrix
}

/// A matrix of these codes, none of which is -128.
pub(crate) fn int8_matrix(codes: &[i8], cols: usize) -> Int8Matrix {
    let shape = (codes.len() / cols, cols);
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        out.copy_from_slice(&codes[rows.start * cols..rows.end * cols]);
        Ok::<(), ()>(())
    };
    Int8Matrix::read(&Pool::new(1), shape, read).expect("reading cannot fail")
}

/// A matrix of these codes, all in 0..=15.
pub(crate) fn nibble_matrix(codes: &[i8], cols: usize) -> NibbleMatrix {
    let shape = (codes.len() / cols, cols);
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        out.copy_from_slice(&codes[rows.start * cols..rows.end * cols]);
        Ok::<(), ()>(())
    };
    NibbleMatrix::read(&Pool::new(1), shape, read).expect("reading cannot fail")
}

/// Rows of codes with scales that are not round.
pub(crate) fn quant_rows(codes: &[i8], cols: usize) -> Vec<QuantRow> {
    let rows = codes.chunks(cols).enumerate();
    rows.map(|(i, codes)| QuantRow::from_codes(codes, 0.013 + i as f32 * 0.37)).collect()
}

/// Fewer cases where an emulator or an interpreter does the work.
pub(crate) fn cases(full: usize) -> usize {
    let slower = if cfg!(miri) {
        200
    } else if cfg!(target_arch = "aarch64") {
        8
    } else {
        1
    };
    full.div_ceil(slower)
}
