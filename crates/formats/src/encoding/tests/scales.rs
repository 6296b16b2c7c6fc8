//! Scales: positions, rounding and rejection.

use super::super::*;
use super::{Random, writable};

const ROWS: usize = 4;
const COLS: usize = 512;

fn encode(e: TernaryEncoding, scales: &Scales, how: Rounding) -> Result<Vec<u8>, EncodingError> {
    encode_trits(e, &Random(5).trits_of(e, ROWS * COLS), ROWS, COLS, scales, how)
}

/// Scales that f16 holds exactly, as fine as the encoding has them.
fn finest(e: TernaryEncoding) -> Scales {
    let numbered = |count: usize| (0..count).map(|at| (at + 1) as f32 / 64.0).collect();
    match e.scale_unit() {
        Some(ScaleUnit::Group(len)) => Scales::Groups { len, values: numbered(ROWS * COLS / len) },
        Some(ScaleUnit::Row) => Scales::Rows(numbered(ROWS)),
        Some(ScaleUnit::Tensor) | None => Scales::Tensor(0.875),
    }
}

#[test]
fn scales_round_trip() {
    for encoding in writable() {
        let scales = finest(encoding);
        let bytes = encode(encoding, &scales, Rounding::Exact).unwrap();
        let read = decode_scales(encoding, &bytes, ROWS, COLS);
        if encoding.scale_unit().is_some() {
            assert_eq!(read, Ok(scales), "{encoding}");
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.ends_with("stores no scales in the tensor"), "{error}");
        }
    }
}

#[test]
fn scales_are_simplified() {
    let groups = |values: &[f32]| Scales::Groups { len: 64, values: values.to_vec() };
    assert_eq!(groups(&[1.0; 6]).simplify(3), Scales::Tensor(1.0));
    let rows = groups(&[1.0, 1.0, 2.0, 2.0, 1.0, 1.0]).simplify(3);
    assert_eq!(rows, Scales::Rows(vec![1.0, 2.0, 1.0]));
    let kept = groups(&[1.0, 1.0, 2.0, 2.0, 1.0, 3.0]);
    assert_eq!(kept.clone().simplify(3), kept);
    // Equal in value is not equal in bits.
    let kept = Scales::Rows(vec![0.0, -0.0]);
    assert!(matches!(kept.simplify(2), Scales::Rows(_)));
    // `check_scales` rejects a count that is not a multiple of the rows.
    let kept = groups(&[1.0; 5]);
    assert_eq!(kept.clone().simplify(3), kept);
    assert_eq!(
        check_scales(&kept, 3, 128),
        Err(EncodingError::ScaleCount { expected: 6, found: 5 })
    );
}

#[test]
fn rejects_scales_finer_than_the_encoding_and_repeats_coarser_ones() {
    let rows = Scales::Rows(vec![1.0, 1.0, 0.5, 1.0]);
    for encoding in writable() {
        let result = encode(encoding, &rows, Rounding::Exact);
        match encoding.scale_unit() {
            Some(ScaleUnit::Tensor) | None => {
                let error = result.unwrap_err().to_string();
                let expected = "stores one scale per tensor, but row 2 has 1 and 0.5 in one tensor";
                assert!(error.ends_with(expected), "{error}");
            }
            _ => {
                let read = decode_scales(encoding, &result.unwrap(), ROWS, COLS);
                assert_eq!(read, Ok(rows.clone()), "{encoding}");
            }
        }
    }
    let groups = Scales::Groups { len: 128, values: (0..16).map(|at| at as f32).collect() };
    let error = encode(TernaryEncoding::IQ2_BN, &groups, Rounding::Exact).unwrap_err();
    let expected = "IQ2_BN stores one scale per row, but row 0 has 0 and 1 in one row";
    assert_eq!(error.to_string(), expected);
    let error = encode(TernaryEncoding::TQ2_0, &groups, Rounding::Exact).unwrap_err();
    let expected = "TQ2_0 stores one scale per group, but row 0 has 0 and 1 in one group";
    assert_eq!(error.to_string(), expected);
    let spread = TernaryEncoding::Q2_0;
    let bytes = encode(spread, &groups, Rounding::Exact).unwrap();
    let Scales::Groups { len: 64, values } = decode_scales(spread, &bytes, ROWS, COLS).unwrap()
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
    let scales = Scales::Groups { len: 256, values: vec![0.5, 0.0] };
    let order = TernaryEncoding::I2_S;
    let bytes = encode_trits(order, &trits, 2, 256, &scales, Rounding::Exact).unwrap();
    assert_eq!(decode_scales(order, &bytes, 2, 256), Ok(Scales::Tensor(0.5)));
    let tq2 = TernaryEncoding::TQ2_0;
    let bytes = encode_trits(tq2, &trits, 2, 256, &scales, Rounding::Exact).unwrap();
    assert_eq!(decode_scales(tq2, &bytes, 2, 256), Ok(Scales::Rows(vec![0.5, 0.0])));
}

#[test]
fn signs_alone_hold_zeros_in_whole_groups_only() {
    let e = TernaryEncoding::Q1_0;
    let mut trits = vec![1; 256];
    trits.get_mut(128..).unwrap().fill(0);
    let scales = Scales::Tensor(0.5);
    let bytes = encode_trits(e, &trits, 1, 256, &scales, Rounding::Exact).unwrap();
    let stored = Scales::Groups { len: 128, values: vec![0.5, 0.0] };
    assert_eq!(decode_scales(e, &bytes, 1, 256), Ok(stored));
    *trits.get_mut(3).unwrap() = 0;
    let error = encode_trits(e, &trits, 1, 256, &scales, Rounding::Exact).unwrap_err();
    assert_eq!(error.to_string(), "Q1_0 stores -1 and 1 only, but row 0, column 3 is 0");
}

#[test]
fn rejects_inexact_f16_scales_unless_rounding_is_allowed() {
    let stores_f16 = |e: &TernaryEncoding| e.scale_unit().is_some() && !e.has_exact_scales();
    for encoding in writable().filter(stores_f16) {
        let scales = Scales::Tensor(0.1);
        let error = encode(encoding, &scales, Rounding::Exact).unwrap_err().to_string();
        let name = encoding.name();
        let expected = format!("{name} stores scales as f16, which rounds 0.1 to 0.099975586");
        assert_eq!(error, expected);
        let bytes = encode(encoding, &scales, Rounding::Allow).unwrap();
        let read = decode_scales(encoding, &bytes, ROWS, COLS);
        assert_eq!(read, Ok(Scales::Tensor(0.099_975_586)));
        // Beyond f16 either way, rounding would lose everything.
        for lost in [1e6, 1e-9] {
            let error = encode(encoding, &Scales::Tensor(lost), Rounding::Allow).unwrap_err();
            assert!(matches!(error, EncodingError::Unrepresentable { .. }), "{error}");
        }
    }
}

#[test]
fn rejects_invalid_scales_with_their_position() {
    for encoding in writable().filter(|e| e.scale_unit().is_some()) {
        let one = Scales::Tensor(1.0);
        let bytes = encode(encoding, &one, Rounding::Exact).unwrap();
        let other = encode(encoding, &Scales::Tensor(2.0), Rounding::Exact).unwrap();
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
        let error = encode(TernaryEncoding::IQ2_BN, &Scales::Tensor(bad), Rounding::Allow);
        assert!(matches!(error, Err(EncodingError::Unrepresentable { .. })), "{bad}");
    }
}
