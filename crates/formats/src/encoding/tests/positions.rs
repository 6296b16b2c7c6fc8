//! Every trit of every encoding is at its documented position.

use super::super::*;
use super::{Random, writable};

/// Position of a trit.
pub(super) enum Position {
    /// Two bits of a byte.
    Bits { byte: usize, shift: usize },
    /// A digit of a base-3 number, counted from the leading one of five.
    Digit { byte: usize, digit: usize },
    /// One bit of a byte.
    Sign { byte: usize, bit: usize },
}

type PositionOf = fn(rows: usize, cols: usize, r: usize, c: usize) -> Position;

/// The positions of the trits of each encoding: a second definition, written from its documentation,
/// that the codec is compared with.
const POSITIONS: [(TernaryEncoding, PositionOf); 20] = [
    (TernaryEncoding::I2_S, i2_s),
    (TernaryEncoding::I2_S_64, |_, cols, r, c| {
        let flat = r * cols + c;
        let byte = flat / 64 * 16 + flat % 16;
        Position::Bits { byte, shift: 6 - flat % 64 / 16 * 2 }
    }),
    (TernaryEncoding::I2_S_4ROW, |_, cols, r, c| Position::Bits {
        byte: r / 4 * cols + c,
        shift: 6 - r % 4 * 2,
    }),
    (TernaryEncoding::IQ2_BN, |_, cols, r, c| {
        let row = r * (4 + cols / 4) + 4;
        Position::Bits { byte: row + c / 64 * 16 + c % 16, shift: c % 64 / 16 * 2 }
    }),
    (TernaryEncoding::IQ2_BN_R4, |_, cols, r, c| {
        let (bundle, k) = (r / 4 * (16 + cols) + 16 + c / 64 * 64, r % 4);
        let (l, f, i) = (c % 64 / 16, c % 16 / 4, c % 4);
        Position::Bits { byte: bundle + 16 * l + 4 * k + i, shift: 2 * f }
    }),
    (TernaryEncoding::TQ1_0, |_, cols, r, c| {
        let flat = r * cols + c;
        let (block, at) = (flat / 256 * 54, flat % 256);
        let (byte, digit) = match at {
            0..160 => (at % 32, at / 32),
            160..240 => (32 + (at - 160) % 16, (at - 160) / 16),
            _ => (48 + (at - 240) % 4, (at - 240) / 4),
        };
        Position::Digit { byte: block + byte, digit }
    }),
    (TernaryEncoding::TQ2_0, |_, cols, r, c| {
        let flat = r * cols + c;
        let (block, at) = (flat / 256 * 66, flat % 256);
        Position::Bits { byte: block + at / 128 * 32 + at % 32, shift: at % 128 / 32 * 2 }
    }),
    (TernaryEncoding::Q2_0, q2_0::<64>),
    (TernaryEncoding::Q2_0_G128, q2_0::<128>),
    (TernaryEncoding::PQ2_0, q2_0::<128>),
    (TernaryEncoding::PTQ1_0, |_, cols, r, c| {
        let flat = r * cols + c;
        let (block, at) = (flat / 128 * 28, flat % 128);
        let (byte, digit) = match at {
            0..80 => (at % 16, at / 16),
            80..120 => (16 + (at - 80) % 8, (at - 80) / 8),
            _ => (24 + (at - 120) % 2, (at - 120) / 2),
        };
        Position::Digit { byte: block + byte, digit }
    }),
    (TernaryEncoding::Q1_0, |_, cols, r, c| {
        let flat = r * cols + c;
        let (block, at) = (flat / 128 * 18, flat % 128);
        Position::Sign { byte: block + 2 + at / 8, bit: at % 8 }
    }),
    (TernaryEncoding::IQ1_BN, |_, cols, r, c| {
        let block = r * (2 + cols / 64 * 13) + 2 + c / 64 * 13;
        let (g, at) = (c % 64 / 16, c % 16);
        // The first trit is the lowest digit: the last of five from the front.
        if at == 15 {
            Position::Digit { byte: block + 12, digit: 4 - g }
        } else {
            Position::Digit { byte: block + 3 * g + at / 5, digit: 4 - at % 5 }
        }
    }),
    (TernaryEncoding::HF_PACKED, |rows, cols, r, c| {
        let quarter = rows / 4;
        Position::Bits { byte: r % quarter * cols + c, shift: r / quarter * 2 }
    }),
    (TernaryEncoding::SGL_PACKED, i2_s),
    (TernaryEncoding::QUAD_LINES, quad_lines),
    (TernaryEncoding::QUAD_LINES_ROW, quad_lines),
    (TernaryEncoding::QUAD_LINES_64, quad_lines),
    (TernaryEncoding::QUAD_LINES_128, quad_lines),
    (TernaryEncoding::QUAD_LINES_256, quad_lines),
];

fn i2_s(_: usize, cols: usize, r: usize, c: usize) -> Position {
    let flat = r * cols + c;
    let byte = flat / 128 * 32 + flat % 32;
    Position::Bits { byte, shift: 6 - flat % 128 / 32 * 2 }
}

fn q2_0<const COLS: usize>(_: usize, cols: usize, r: usize, c: usize) -> Position {
    let flat = r * cols + c;
    let (block, at) = (flat / COLS * (2 + COLS / 4), flat % COLS);
    Position::Bits { byte: block + 2 + at / 4, shift: at % 4 * 2 }
}

fn quad_lines(_: usize, cols: usize, r: usize, c: usize) -> Position {
    let line = r / 16 * cols.div_ceil(64) * 4 + c / 16;
    Position::Bits { byte: 64 * line + 4 * (r % 16) + c % 4, shift: c % 16 / 4 * 2 }
}

pub(super) fn position_of(encoding: TernaryEncoding) -> PositionOf {
    let found = POSITIONS.iter().find(|(known, _)| *known == encoding);
    found.expect("every writable encoding has a definition").1
}

const SHAPES: &[(usize, usize)] =
    if cfg!(miri) { &[(4, 256)] } else { &[(4, 256), (8, 512), (20, 1280)] };

fn read(position: &Position, bytes: &[u8]) -> i8 {
    match *position {
        Position::Bits { byte, shift } => ((bytes.get(byte).unwrap() >> shift) & 3) as i8 - 1,
        Position::Digit { byte, digit } => {
            let rest = bytes.get(byte).unwrap().wrapping_mul(3_u8.pow(digit as u32));
            ((u16::from(rest) * 3) >> 8) as i8 - 1
        }
        Position::Sign { byte, bit } => 2 * ((bytes.get(byte).unwrap() >> bit) & 1) as i8 - 1,
    }
}

#[test]
fn every_trit_is_at_its_documented_position() {
    let mut random = Random(1);
    for encoding in writable() {
        let position = position_of(encoding);
        for &(rows, cols) in SHAPES {
            let trits = random.trits_of(encoding, rows * cols);
            let scales = Scales::Tensor(0.25);
            let bytes =
                encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
            assert_eq!(bytes.len() as u64, encoding.size(rows, cols).unwrap());
            let mut decoded = vec![9; trits.len()];
            decode_trits(encoding, &bytes, rows, cols, 0..rows, &mut decoded).unwrap();
            for (at, trit) in trits.iter().enumerate() {
                let (r, c) = (at / cols, at % cols);
                let defined = read(&position(rows, cols, r, c), &bytes);
                assert_eq!(defined, *trit, "{encoding}: written at row {r}, column {c}");
                assert_eq!(decoded.get(at), Some(trit), "{encoding}: read at row {r}, column {c}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn a_range_of_rows_is_a_slice_of_the_matrix() {
    let (rows, cols) = (12, 256);
    for encoding in writable() {
        let trits = Random(2).trits_of(encoding, rows * cols);
        let scales = Scales::Tensor(1.0);
        let bytes = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
        for start in 0..=rows {
            for end in start..=rows {
                let mut part = vec![9; (end - start) * cols];
                decode_trits(encoding, &bytes, rows, cols, start..end, &mut part).unwrap();
                assert_eq!(Some(&*part), trits.get(start * cols..end * cols), "{encoding}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn encode_of_decode_gives_the_same_bytes() {
    let (rows, cols) = (8, 768);
    for encoding in writable() {
        let trits = Random(3).trits_of(encoding, rows * cols);
        let scales = Scales::Tensor(0.375);
        let bytes = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
        let mut decoded = vec![0; trits.len()];
        decode_trits(encoding, &bytes, rows, cols, 0..rows, &mut decoded).unwrap();
        let again = encode_trits(encoding, &decoded, rows, cols, &scales, Rounding::Exact).unwrap();
        assert_eq!(bytes, again, "{encoding}");
    }
}

#[test]
fn sizes_are_as_documented() {
    let size = |e: TernaryEncoding| e.size(2560, 6912).unwrap();
    let trits = 2560 * 6912;
    assert_eq!(size(TernaryEncoding::I2_S), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::I2_S_64), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::I2_S_4ROW), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::TQ1_0), trits / 256 * 54);
    assert_eq!(size(TernaryEncoding::TQ2_0), trits / 256 * 66);
    assert_eq!(size(TernaryEncoding::Q2_0), trits / 64 * 18);
    assert_eq!(size(TernaryEncoding::Q2_0_G128), trits / 128 * 34);
    assert_eq!(size(TernaryEncoding::PQ2_0), trits / 128 * 34);
    assert_eq!(size(TernaryEncoding::PTQ1_0), trits / 128 * 28);
    assert_eq!(size(TernaryEncoding::Q1_0), trits / 128 * 18);
    assert_eq!(size(TernaryEncoding::IQ2_BN), 2560 * (4 + 6912 / 4));
    assert_eq!(size(TernaryEncoding::IQ2_BN_R4), 2560 * (4 + 6912 / 4));
    assert_eq!(size(TernaryEncoding::IQ1_BN), 2560 * (2 + 6912 / 64 * 13));
    assert_eq!(size(TernaryEncoding::HF_PACKED), trits / 4);
    assert_eq!(size(TernaryEncoding::SGL_PACKED), trits / 4);
}

#[test]
fn orders_round_trip_as_text() {
    for order in [I2sOrder::Groups128, I2sOrder::Groups64, I2sOrder::FourRows] {
        assert_eq!(order.to_string().parse(), Ok(order));
        assert_eq!(order.encoding().i2s_order(), Some(order));
    }
    let error = "32".parse::<I2sOrder>().unwrap_err();
    assert_eq!(error, "unknown I2_S order \"32\", allowed are 128, 64 and 4row");
}
