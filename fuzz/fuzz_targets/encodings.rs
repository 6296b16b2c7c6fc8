//! Any bytes in any encoding and shape: trits and scales that come out go back in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wf_formats::encoding::{
    FloatEncoding, I2sOrder, Rounding, TernaryEncoding, TritScales, decode_floats, decode_scales,
    decode_trits, encode_floats, encode_trits,
};

const TERNARY: [TernaryEncoding; 12] = [
    TernaryEncoding::I2s(I2sOrder::Groups128),
    TernaryEncoding::I2s(I2sOrder::Groups64),
    TernaryEncoding::I2s(I2sOrder::FourRows),
    TernaryEncoding::Tq1_0,
    TernaryEncoding::Tq2_0,
    TernaryEncoding::Q2_0 { group_len: 64 },
    TernaryEncoding::Q2_0 { group_len: 128 },
    TernaryEncoding::Iq2Bn,
    TernaryEncoding::Iq1Bn,
    TernaryEncoding::Iq2BnR4,
    TernaryEncoding::HfPacked,
    TernaryEncoding::SglPacked,
];

const FLOATS: [FloatEncoding; 6] = [
    FloatEncoding::F32,
    FloatEncoding::F16,
    FloatEncoding::Bf16,
    FloatEncoding::Q8_0,
    FloatEncoding::Q6K,
    FloatEncoding::Q4_0,
];

fuzz_target!(|bytes: &[u8]| {
    let [which, rows, cols, bytes @ ..] = bytes else { return };
    let (which, rows, cols) = (usize::from(*which), usize::from(*rows % 9), usize::from(*cols));
    // Multiples of 32 fit every encoding often; the odd ones must be refused.
    let cols = if cols % 2 == 0 { cols / 2 * 32 } else { cols };
    match (TERNARY.get(which), FLOATS.get(which.wrapping_sub(TERNARY.len()))) {
        (Some(encoding), _) => ternary(*encoding, bytes, rows, cols),
        (None, Some(encoding)) => floats(*encoding, bytes, cols),
        (None, None) => {}
    }
});

fn ternary(encoding: TernaryEncoding, bytes: &[u8], rows: usize, cols: usize) {
    // Cut or filled to the right size: the wrong one is refused at once.
    let mut bytes = bytes.to_vec();
    if let Ok(size) = encoding.size(rows, cols) {
        bytes.resize(size as usize, 0);
    }
    let mut trits = vec![9; rows * cols];
    let decoded = decode_trits(encoding, &bytes, rows, cols, 0..rows, &mut trits);
    let scales = decode_scales(encoding, &bytes, rows, cols);
    if decoded.is_err() {
        return;
    }
    assert!(trits.iter().all(|trit| (-1..=1).contains(trit)));
    let scales = scales.unwrap_or(TritScales::Tensor(1.0));
    // Scales of parts without weights may be lost, so compare what the bytes mean, not the bytes.
    let again = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact)
        .expect("what was decoded can be encoded");
    let mut trits_again = vec![9; rows * cols];
    decode_trits(encoding, &again, rows, cols, 0..rows, &mut trits_again)
        .expect("what was encoded can be decoded");
    assert_eq!(trits, trits_again);
}

fn floats(encoding: FloatEncoding, bytes: &[u8], cols: usize) {
    let mut bytes = bytes.to_vec();
    if let Ok(size) = encoding.row_size(cols) {
        bytes.resize(size as usize, 0);
    }
    let mut values = vec![0.0; cols];
    if decode_floats(encoding, &bytes, &mut values).is_err() {
        return;
    }
    assert!(values.iter().all(|value| value.is_finite()));
    // Some values are near the limit of f16 after scaling and do not go back.
    if let Ok(again) = encode_floats(encoding, &values) {
        decode_floats(encoding, &again, &mut values).expect("what was encoded can be decoded");
    }
}
