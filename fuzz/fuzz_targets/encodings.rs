//! Any bytes in any encoding and shape: trits and scales that come out go back in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wf_formats::encoding::{
    FloatEncoding, Rounding, Scales, TernaryEncoding, decode_floats, decode_scales, decode_trits,
    encode_floats, encode_trits,
};

fuzz_target!(|bytes: &[u8]| {
    let [which, rows, cols, bytes @ ..] = bytes else { return };
    let (which, rows, cols) = (usize::from(*which), usize::from(*rows % 9), usize::from(*cols));
    // Mostly multiples of 32, which fit many encodings.
    let cols = if cols % 2 == 0 { cols / 2 * 32 } else { cols };
    let writable: Vec<_> = TernaryEncoding::ALL.iter().filter(|e| e.is_writable()).collect();
    match (writable.get(which), FloatEncoding::ALL.get(which.wrapping_sub(writable.len()))) {
        (Some(encoding), _) => ternary(**encoding, bytes, rows, cols),
        (None, Some(encoding)) => floats(*encoding, bytes, cols),
        (None, None) => {}
    }
});

fn ternary(encoding: TernaryEncoding, bytes: &[u8], rows: usize, cols: usize) {
    // Resized, because bytes of the wrong size are rejected at once.
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
    let scales = scales.unwrap_or(Scales::Tensor(1.0));
    // Scales of groups without weights may change, so trits are compared instead of bytes.
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
    // Some values are out of the range of f16 after scaling.
    if let Ok(again) = encode_floats(encoding, &values) {
        decode_floats(encoding, &again, &mut values).expect("what was encoded can be decoded");
    }
}
