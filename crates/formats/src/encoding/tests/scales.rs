//! Scales: found where they lie, refused where they cannot be held.

use super::super::*;
use super::{ALL, Random};

const ROWS: usize = 4;
const COLS: usize = 512;

fn encode(
    e: TernaryEncoding,
    scales: &TritScales,
    how: Rounding,
) -> Result<Vec<u8>, EncodingError> {
    encode_trits(e, &Random(5).trits(ROWS * COLS), ROWS, COLS, scales, how)
}

/// Scales that f16 holds exactly, as fine as the encoding has them.
fn finest(e: TernaryEncoding) -> TritScales {
    let numbered = |count: usize| (0..count).map(|at| (at + 1) as f32 / 64.0).collect();
    match e {
        TernaryEncoding::Tq1_0 | TernaryEncoding::Tq2_0 => {
            TritScales::Groups { len: 256, values: numbered(ROWS * COLS / 256) }
        }
        TernaryEncoding::Q2_0 { group_len } => {
            TritScales::Groups { len: group_len, values: numbered(ROWS * COLS / group_len) }
        }
        TernaryEncoding::Iq2Bn | TernaryEncoding::Iq1Bn | TernaryEncoding::Iq2BnR4 => {
            TritScales::Rows(numbered(ROWS))
        }
        _ => TritScales::Tensor(0.875),
    }
}

fn carries_scales(e: TernaryEncoding) -> bool {
    !matches!(e, TernaryEncoding::HfPacked | TernaryEncoding::SglPacked)
}

#[test]
fn every_scale_comes_back_in_its_place() {
    for encoding in ALL {
        let scales = finest(encoding);
        let bytes = encode(encoding, &scales, Rounding::Exact).unwrap();
        let read = decode_scales(encoding, &bytes, ROWS, COLS);
        if carries_scales(encoding) {
            assert_eq!(read, Ok(scales), "{encoding}");
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.ends_with("it lies elsewhere in the file"), "{error}");
        }
    }
}

#[test]
fn scales_are_said_with_as_few_numbers_as_they_need() {
    let groups = |values: &[f32]| TritScales::Groups { len: 64, values: values.to_vec() };
    assert_eq!(groups(&[1.0; 6]).simplify(3), TritScales::Tensor(1.0));
    let rows = groups(&[1.0, 1.0, 2.0, 2.0, 1.0, 1.0]).simplify(3);
    assert_eq!(rows, TritScales::Rows(vec![1.0, 2.0, 1.0]));
    let kept = groups(&[1.0, 1.0, 2.0, 2.0, 1.0, 3.0]);
    assert_eq!(kept.clone().simplify(3), kept);
    // Equal in value is not equal in bits.
    let kept = TritScales::Rows(vec![0.0, -0.0]);
    assert!(matches!(kept.simplify(2), TritScales::Rows(_)));
    // A count that does not divide into rows is left for `check` to refuse.
    let kept = groups(&[1.0; 5]);
    assert_eq!(kept.clone().simplify(3), kept);
    assert_eq!(kept.check(3, 128), Err(EncodingError::ScaleCount { expected: 6, found: 5 }));
}

#[test]
fn finer_scales_are_refused_by_coarser_encodings_and_spread_by_finer_ones() {
    let rows = TritScales::Rows(vec![1.0, 1.0, 0.5, 1.0]);
    for encoding in ALL {
        let result = encode(encoding, &rows, Rounding::Exact);
        match encoding {
            TernaryEncoding::I2s(_)
            | TernaryEncoding::HfPacked
            | TernaryEncoding::SglPacked
            | TernaryEncoding::QuadLines(ScaleUnit::Tensor) => {
                let error = result.unwrap_err().to_string();
                let expected = "holds one scale per tensor, row 2 has 1 and 0.5 within one tensor";
                assert!(error.ends_with(expected), "{error}");
            }
            _ => {
                let read = decode_scales(encoding, &result.unwrap(), ROWS, COLS);
                assert_eq!(read, Ok(rows.clone()), "{encoding}");
            }
        }
    }
    let groups = TritScales::Groups { len: 128, values: (0..16).map(|at| at as f32).collect() };
    let error = encode(TernaryEncoding::Iq2Bn, &groups, Rounding::Exact).unwrap_err();
    let expected = "IQ2_BN holds one scale per row, row 0 has 0 and 1 within one row";
    assert_eq!(error.to_string(), expected);
    let error = encode(TernaryEncoding::Tq2_0, &groups, Rounding::Exact).unwrap_err();
    let expected = "TQ2_0 holds one scale per group, row 0 has 0 and 1 within one group";
    assert_eq!(error.to_string(), expected);
    let spread = TernaryEncoding::Q2_0 { group_len: 64 };
    let bytes = encode(spread, &groups, Rounding::Exact).unwrap();
    let TritScales::Groups { len: 64, values } = decode_scales(spread, &bytes, ROWS, COLS).unwrap()
    else {
        panic!("groups of 64")
    };
    assert_eq!(values, (0..32).map(|at| (at / 2) as f32).collect::<Vec<_>>());
}

#[test]
fn a_group_of_zeros_fits_any_scale() {
    // Quantizers write scale 0 for a group of zeros; the tensor still has one scale.
    let mut trits = vec![1; 2 * 256];
    trits.get_mut(256..).unwrap().fill(0);
    let scales = TritScales::Groups { len: 256, values: vec![0.5, 0.0] };
    let order = TernaryEncoding::I2s(I2sOrder::Groups128);
    let bytes = encode_trits(order, &trits, 2, 256, &scales, Rounding::Exact).unwrap();
    assert_eq!(decode_scales(order, &bytes, 2, 256), Ok(TritScales::Tensor(0.5)));
    let tq2 = TernaryEncoding::Tq2_0;
    let bytes = encode_trits(tq2, &trits, 2, 256, &scales, Rounding::Exact).unwrap();
    assert_eq!(decode_scales(tq2, &bytes, 2, 256), Ok(TritScales::Rows(vec![0.5, 0.0])));
}

#[test]
fn rounding_to_f16_is_asked_for_or_refused() {
    for encoding in [TernaryEncoding::Tq1_0, TernaryEncoding::Tq2_0, TernaryEncoding::Iq1Bn] {
        let scales = TritScales::Tensor(0.1);
        let error = encode(encoding, &scales, Rounding::Exact).unwrap_err().to_string();
        let expected = format!("{encoding} stores scales as f16: 0.1 would become 0.099975586");
        assert_eq!(error, expected);
        let bytes = encode(encoding, &scales, Rounding::Allow).unwrap();
        let read = decode_scales(encoding, &bytes, ROWS, COLS);
        assert_eq!(read, Ok(TritScales::Tensor(0.099_975_586)));
        // Beyond f16 either way, rounding would lose everything.
        for lost in [1e6, 1e-9] {
            let error = encode(encoding, &TritScales::Tensor(lost), Rounding::Allow).unwrap_err();
            assert!(matches!(error, EncodingError::Unholdable { .. }), "{error}");
        }
    }
}

#[test]
fn scales_that_are_none_are_named_with_their_place() {
    for encoding in ALL.into_iter().filter(|e| carries_scales(*e)) {
        let one = TritScales::Tensor(1.0);
        let bytes = encode(encoding, &one, Rounding::Exact).unwrap();
        let other = encode(encoding, &TritScales::Tensor(2.0), Rounding::Exact).unwrap();
        let last = bytes.iter().zip(&other).rposition(|(a, b)| a != b).unwrap();
        // 1.0 and 2.0 differ in the top byte, where the sign and the exponent are.
        for (top, name) in [(0xff, "NaN"), (0xbc, "-")] {
            let mut bytes = bytes.clone();
            *bytes.get_mut(last).unwrap() = top;
            *bytes.get_mut(last - 1).unwrap() |= 0xc0;
            let error = decode_scales(encoding, &bytes, ROWS, COLS).unwrap_err();
            let EncodingError::Scale { offset, .. } = error else { panic!("{error}") };
            assert!(last - offset == 1 || last - offset == 3, "{encoding}: {offset}");
            assert!(error.to_string().contains(&format!("found scale {name}")), "{error}");
        }
    }
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        let error = encode(TernaryEncoding::Iq2Bn, &TritScales::Tensor(bad), Rounding::Allow);
        assert!(matches!(error, Err(EncodingError::Unholdable { .. })), "{bad}");
    }
}
