//! Every trit of every encoding is where the documents say it is.

use super::super::*;
use super::{ALL, Random};

/// Where a trit is: its byte, and how to get its code out of it.
enum Field {
    /// Two bits at this shift.
    Bits { byte: usize, shift: usize },
    /// A digit of a base-3 number, counted from the leading one of five.
    Digit { byte: usize, digit: usize },
}

/// The definition of every encoding, one trit at a time: slow, and written from the documents.
fn field(e: TernaryEncoding, rows: usize, cols: usize, r: usize, c: usize) -> Field {
    let flat = r * cols + c;
    match e {
        TernaryEncoding::I2s(I2sOrder::Groups128) | TernaryEncoding::SglPacked => {
            let byte = flat / 128 * 32 + flat % 32;
            Field::Bits { byte, shift: 6 - flat % 128 / 32 * 2 }
        }
        TernaryEncoding::I2s(I2sOrder::Groups64) => {
            let byte = flat / 64 * 16 + flat % 16;
            Field::Bits { byte, shift: 6 - flat % 64 / 16 * 2 }
        }
        TernaryEncoding::I2s(I2sOrder::FourRows) => {
            Field::Bits { byte: r / 4 * cols + c, shift: 6 - r % 4 * 2 }
        }
        TernaryEncoding::Tl1(_) | TernaryEncoding::Tl2(_) => unreachable!("see `tiled`"),
        TernaryEncoding::Tq1_0 => {
            let (group, at) = (flat / 256 * 54, flat % 256);
            let (byte, digit) = match at {
                0..160 => (at % 32, at / 32),
                160..240 => (32 + (at - 160) % 16, (at - 160) / 16),
                _ => (48 + (at - 240) % 4, (at - 240) / 4),
            };
            Field::Digit { byte: group + byte, digit }
        }
        TernaryEncoding::Tq2_0 => {
            let (group, at) = (flat / 256 * 66, flat % 256);
            Field::Bits { byte: group + at / 128 * 32 + at % 32, shift: at % 128 / 32 * 2 }
        }
        TernaryEncoding::Q2_0 { group_len } => {
            let (group, at) = (flat / group_len * (2 + group_len / 4), flat % group_len);
            Field::Bits { byte: group + 2 + at / 4, shift: at % 4 * 2 }
        }
        TernaryEncoding::Iq2Bn => {
            let row = r * (4 + cols / 4) + 4;
            Field::Bits { byte: row + c / 64 * 16 + c % 16, shift: c % 64 / 16 * 2 }
        }
        TernaryEncoding::Iq1Bn => {
            let run = r * (2 + cols / 64 * 13) + 2 + c / 64 * 13;
            let (g, at) = (c % 64 / 16, c % 16);
            // The first trit is the lowest digit: the last of five from the front.
            if at == 15 {
                Field::Digit { byte: run + 12, digit: 4 - g }
            } else {
                Field::Digit { byte: run + 3 * g + at / 5, digit: 4 - at % 5 }
            }
        }
        TernaryEncoding::Iq2BnR4 => {
            let (bundle, k) = (r / 4 * (16 + cols) + 16 + c / 64 * 64, r % 4);
            let (l, f, i) = (c % 64 / 16, c % 16 / 4, c % 4);
            Field::Bits { byte: bundle + 16 * l + 4 * k + i, shift: 2 * f }
        }
        TernaryEncoding::QuadLines(_) => {
            let line = r / 16 * cols.div_ceil(64) * 4 + c / 16;
            Field::Bits { byte: 64 * line + 4 * (r % 16) + c % 4, shift: c % 16 / 4 * 2 }
        }
        TernaryEncoding::HfPacked => {
            let quarter = rows / 4;
            Field::Bits { byte: r % quarter * cols + c, shift: r / quarter * 2 }
        }
    }
}

fn read(field: &Field, bytes: &[u8]) -> i8 {
    match *field {
        Field::Bits { byte, shift } => ((bytes.get(byte).unwrap() >> shift) & 3) as i8 - 1,
        Field::Digit { byte, digit } => {
            let rest = bytes.get(byte).unwrap().wrapping_mul(3_u8.pow(digit as u32));
            ((u16::from(rest) * 3) >> 8) as i8 - 1
        }
    }
}

#[test]
fn every_trit_is_where_the_definition_says() {
    let mut random = Random(1);
    for encoding in ALL {
        for (rows, cols) in [(4, 256), (8, 512), (20, 1280)] {
            let trits = random.trits(rows * cols);
            let scales = TritScales::Tensor(0.25);
            let bytes =
                encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
            assert_eq!(bytes.len() as u64, encoding.size(rows, cols).unwrap());
            let mut decoded = vec![9; trits.len()];
            decode_trits(encoding, &bytes, rows, cols, 0..rows, &mut decoded).unwrap();
            for (at, trit) in trits.iter().enumerate() {
                let (r, c) = (at / cols, at % cols);
                let defined = read(&field(encoding, rows, cols, r, c), &bytes);
                assert_eq!(defined, *trit, "{encoding}: written at row {r}, column {c}");
                assert_eq!(decoded.get(at), Some(trit), "{encoding}: read at row {r}, column {c}");
            }
        }
    }
}

#[test]
fn any_range_of_rows_is_that_part_of_the_whole() {
    let (rows, cols) = (12, 256);
    let trits = Random(2).trits(rows * cols);
    for encoding in ALL {
        let scales = TritScales::Tensor(1.0);
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
fn encode_of_decode_gives_the_same_bytes() {
    let (rows, cols) = (8, 768);
    let trits = Random(3).trits(rows * cols);
    for encoding in ALL {
        let scales = TritScales::Tensor(0.375);
        let bytes = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
        let mut decoded = vec![0; trits.len()];
        decode_trits(encoding, &bytes, rows, cols, 0..rows, &mut decoded).unwrap();
        let again = encode_trits(encoding, &decoded, rows, cols, &scales, Rounding::Exact).unwrap();
        assert_eq!(bytes, again, "{encoding}");
    }
}

#[test]
fn sizes_are_those_of_the_documents() {
    let size = |e: TernaryEncoding| e.size(2560, 6912).unwrap();
    let trits = 2560 * 6912;
    assert_eq!(size(TernaryEncoding::I2s(I2sOrder::Groups128)), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::I2s(I2sOrder::Groups64)), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::I2s(I2sOrder::FourRows)), trits / 4 + 32);
    assert_eq!(size(TernaryEncoding::Tq1_0), trits / 256 * 54);
    assert_eq!(size(TernaryEncoding::Tq2_0), trits / 256 * 66);
    assert_eq!(size(TernaryEncoding::Q2_0 { group_len: 64 }), trits / 64 * 18);
    assert_eq!(size(TernaryEncoding::Q2_0 { group_len: 128 }), trits / 128 * 34);
    assert_eq!(size(TernaryEncoding::Iq2Bn), 2560 * (4 + 6912 / 4));
    assert_eq!(size(TernaryEncoding::Iq2BnR4), 2560 * (4 + 6912 / 4));
    assert_eq!(size(TernaryEncoding::Iq1Bn), 2560 * (2 + 6912 / 64 * 13));
    assert_eq!(size(TernaryEncoding::HfPacked), trits / 4);
    assert_eq!(size(TernaryEncoding::SglPacked), trits / 4);
}

#[test]
fn orders_are_read_as_they_are_written() {
    for order in [I2sOrder::Groups128, I2sOrder::Groups64, I2sOrder::FourRows] {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    let error = "32".parse::<I2sOrder>().unwrap_err();
    assert_eq!(error, "unknown I2_S order \"32\", allowed are 128, 64 and 4row");
}
