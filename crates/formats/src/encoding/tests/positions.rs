//! Every trit of every encoding is at its documented position.

use super::super::*;
use super::{Random, writable};
use crate::encoding::ternary::Position;

const SHAPES: &[(usize, usize)] =
    if cfg!(miri) { &[(4, 256)] } else { &[(4, 256), (8, 512), (20, 1280)] };

fn read(position: &Position, bytes: &[u8]) -> i8 {
    match *position {
        Position::Bits { byte, shift } => ((bytes.get(byte).unwrap() >> shift) & 3) as i8 - 1,
        Position::Digit { byte, digit } => {
            let rest = bytes.get(byte).unwrap().wrapping_mul(3_u8.pow(digit as u32));
            ((u16::from(rest) * 3) >> 8) as i8 - 1
        }
    }
}

#[test]
fn every_trit_is_at_its_documented_position() {
    let mut random = Random(1);
    for encoding in writable() {
        let position = encoding.position().expect("every writable encoding has a definition");
        for &(rows, cols) in SHAPES {
            let trits = random.trits(rows * cols);
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
    let trits = Random(2).trits(rows * cols);
    for encoding in writable() {
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
    let trits = Random(3).trits(rows * cols);
    for encoding in writable() {
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
