//! Invalid bytes, shapes and buffers.

use super::super::*;
use super::positions::{Position, position_of};
use super::{Random, writable};

fn decode(
    e: TernaryEncoding,
    bytes: &[u8],
    rows: usize,
    cols: usize,
) -> Result<Vec<i8>, EncodingError> {
    let mut out = vec![9; rows * cols];
    decode_trits(e, bytes, rows, cols, 0..rows, &mut out)?;
    Ok(out)
}

/// Every single-bit flip gives trits or an error with its byte.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn a_flipped_bit_gives_trits_or_an_error_at_its_byte() {
    let (rows, cols) = (4, 256);
    // Every bit is a sign without 0.
    for encoding in writable().filter(|encoding| encoding.has_zero()) {
        let trits = Random(11).trits(rows * cols);
        let scales = Scales::Tensor(1.0);
        let bytes = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
        let mut rejected = 0;
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                *bytes.get_mut(at).unwrap() ^= 1 << bit;
                match decode(encoding, &bytes, rows, cols) {
                    Ok(trits) => assert!(trits.iter().all(|trit| (-1..=1).contains(trit))),
                    Err(EncodingError::Byte(BadByte { offset, row, col, .. })) => {
                        assert_eq!(offset, at, "{encoding}");
                        assert!(row < rows && col < cols, "{encoding}");
                        rejected += 1;
                    }
                    Err(other) => panic!("{encoding}: {other}"),
                }
            }
        }
        // A third of the trits become code 3 by some flip; of base-3 bytes few are no number.
        let expected = bytes.len() / 4;
        assert!(
            rejected > expected,
            "{encoding}: {rejected} of {} flips rejected",
            8 * bytes.len()
        );
    }
}

/// The error for code 3 has the row and column of the trit.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn reports_the_row_and_column_of_code_three() {
    let (rows, cols) = (4, 256);
    for encoding in writable() {
        let position = position_of(encoding);
        let Position::Bits { .. } = position(rows, cols, 0, 0) else { continue };
        let scales = Scales::Tensor(1.0);
        let encode = |trits: &[i8]| {
            encode_trits(encoding, trits, rows, cols, &scales, Rounding::Exact).unwrap()
        };
        let zeros = encode(&vec![0; rows * cols]);
        for at in (0..rows * cols).step_by(7) {
            // Zero is code 01 and one is 10: their union is 11.
            let mut trits = vec![0; rows * cols];
            *trits.get_mut(at).unwrap() = 1;
            let ones = encode(&trits);
            let bytes: Vec<u8> = zeros.iter().zip(&ones).map(|(zero, one)| zero | one).collect();
            let error = decode(encoding, &bytes, rows, cols).unwrap_err();
            let offset = bytes.iter().zip(&zeros).position(|(a, b)| a != b).unwrap();
            let (row, col) = (at / cols, at % cols);
            assert_eq!(
                error,
                EncodingError::Byte(BadByte { offset, row, col, fault: Fault::Code }),
                "{encoding}"
            );
        }
    }
    let mut bytes = vec![0; 32 + 32];
    *bytes.get_mut(5).unwrap() = 0b0000_1100;
    let error = decode(TernaryEncoding::I2_S, &bytes, 1, 128).unwrap_err();
    let expected = "byte 5 (row 0, column 69): found code 3, allowed are 0, 1 and 2";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn rejects_invalid_base_3_bytes() {
    // v = 0 is byte 0 and v = 1 is byte 2, so byte 1 is the first of the 13 that are no number.
    let mut bytes = vec![0; 54];
    *bytes.get_mut(33).unwrap() = 1;
    let error = decode(TernaryEncoding::TQ1_0, &bytes, 1, 256).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 33 (row 0, column 161): found 0x01, allowed are the bytes that 5 trits encode to \
         (ceil(256 v / 243) of a base-3 number v)"
    );
    // 2 is five trits (the last of them 0), but not four.
    let mut bytes = vec![0; 54];
    *bytes.get_mut(49).unwrap() = 2;
    let error = decode(TernaryEncoding::TQ1_0, &bytes, 1, 256).unwrap_err();
    assert_eq!(
        error,
        EncodingError::Byte(BadByte {
            offset: 49,
            row: 0,
            col: 241,
            fault: Fault::Base3 { byte: 2, trits: 4 }
        })
    );
    // In IQ1_BN four trits are the numbers below 81: 86 is 81, one too many.
    let mut bytes = vec![0; 2 * 15];
    *bytes.get_mut(15 + 2 + 12).unwrap() = 86;
    let error = decode(TernaryEncoding::IQ1_BN, &bytes, 2, 64).unwrap_err();
    assert_eq!(
        error,
        EncodingError::Byte(BadByte {
            offset: 29,
            row: 1,
            col: 15,
            fault: Fault::Base3 { byte: 86, trits: 4 }
        })
    );
    let legal = (0..=255).filter(|byte| {
        let bytes = [&[0, 0, *byte][..], &[0; 12]].concat();
        decode(TernaryEncoding::IQ1_BN, &bytes, 1, 64).is_ok()
    });
    assert_eq!(legal.count(), 243);
}

#[test]
fn rejects_shapes_that_do_not_fit() {
    let message = |e: TernaryEncoding, rows, cols| e.size(rows, cols).unwrap_err().to_string();
    let expected = "TQ1_0 requires columns in multiples of 256, found 640";
    assert_eq!(message(TernaryEncoding::TQ1_0, 4, 640), expected);
    let expected = "HF packed requires rows in multiples of 4, found 6";
    assert_eq!(message(TernaryEncoding::HF_PACKED, 6, 640), expected);
    let scales = Scales::Groups { len: 32, values: Vec::new() };
    let error = TernaryEncoding::quad_lines_for(&scales).unwrap_err();
    assert_eq!(error.to_string(), "quad lines supports groups of 64, 128 or 256, found 32");
    let expected = "I2_S requires at least one row and one column, found 0 x 128";
    assert_eq!(message(TernaryEncoding::I2_S, 0, 128), expected);
    for encoding in writable() {
        for (rows, cols) in [(usize::MAX & !3, 256), (4, usize::MAX & !255), (1 << 40, 1 << 40)] {
            let error = encoding.size(rows, cols).unwrap_err();
            assert!(matches!(error, EncodingError::TooLarge { .. }), "{encoding}: {error}");
        }
        assert!(encoding.size(0, 256).is_err() && encoding.size(4, 0).is_err());
    }
}

#[test]
fn any_bytes_with_any_shape_give_trits_or_an_error() {
    let mut random = Random(13);
    for (_, encoding) in
        (0..if cfg!(miri) { 40 } else { 4000 }).zip(TernaryEncoding::ALL.iter().copied().cycle())
    {
        let rows = random.below(9);
        let cols = 32 * random.below(18);
        let right = encoding.size(rows, cols).unwrap_or(7) as usize;
        let len = if random.below(3) == 0 { random.below(2000) } else { right };
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let (start, end) = (random.below(10), random.below(10));
        let mut out = vec![9; random.below(3) * cols];
        let _ = decode_trits(encoding, &bytes, rows, cols, start..end, &mut out);
        let decoded = decode(encoding, &bytes, rows, cols);
        assert!(decoded.is_err() || len == right, "{encoding}: {len} bytes for {rows} x {cols}");
        if let Ok(scales) = decode_scales(encoding, &bytes, rows, cols) {
            assert!(scales.values().iter().all(|scale| scale.is_finite() && *scale >= 0.0));
        }
    }
}

#[test]
fn rejects_wrong_buffers_and_trits() {
    let e = TernaryEncoding::HF_PACKED;
    let bytes = [0; 8];
    let error = decode_trits(e, &bytes, 4, 8, 1..5, &mut [0; 32]).unwrap_err();
    assert_eq!(error.to_string(), "rows 1..5 are out of range for a matrix of 4 rows");
    let error = decode_trits(e, &bytes, 4, 8, 1..3, &mut [0; 15]).unwrap_err();
    assert_eq!(error.to_string(), "buffer has 15 values, 16 are required");
    let error = decode_trits(e, &bytes, 4, 4, 0..4, &mut [0; 16]).unwrap_err();
    assert_eq!(error.to_string(), "HF packed of 4 x 4 takes 4 bytes, found 8");
    let trits = [0, 1, -1, 0, 0, 2, 0, 0];
    let scales = Scales::Tensor(1.0);
    let error = encode_trits(e, &trits, 4, 2, &scales, Rounding::Exact).unwrap_err();
    assert_eq!(error.to_string(), "row 2, column 1: found trit 2, allowed are -1, 0 and 1");
    let error = encode_trits(e, &trits, 4, 4, &scales, Rounding::Exact).unwrap_err();
    assert_eq!(error.to_string(), "buffer has 8 values, 16 are required");
}
