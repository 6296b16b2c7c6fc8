//! Float encodings against gguf-py and against themselves.

use super::super::*;
use super::Random;

fn decode(e: FloatEncoding, bytes: &[u8], len: usize) -> Result<Vec<f32>, EncodingError> {
    let mut out = vec![0.0; len];
    decode_floats(e, bytes, &mut out)?;
    Ok(out)
}

/// The sum of values weighted by position, as a digest.
fn weighted(values: &[f32]) -> f64 {
    values.iter().enumerate().map(|(at, value)| (at + 1) as f64 * f64::from(*value)).sum()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `v = ((numpy.arange(64) * 37 % 101 - 50) / 8).astype(numpy.float32)`, then
/// `gguf.quants.quantize(v.reshape(1, -1), t)` and `dequantize` for t = Q8_0 and Q4_0.
#[test]
fn q8_0_and_q4_0_equal_gguf_py() {
    let values: Vec<f32> = (0..64).map(|i| ((i * 37 % 101) - 50) as f32 / 8.0).collect();
    let bytes = encode_floats(FloatEncoding::Q8_0, &values).unwrap();
    assert_eq!(
        hex(&bytes),
        "4d2a81df3d9af856b41270cd2b89e745a2005ebb1977d53390ee4caa0866c3217fdc\
         2c2a3c96f656b0106fca2984e3439efd5db71777d1318beb4ba50565bf1f7fd93993"
    );
    let back = decode(FloatEncoding::Q8_0, &bytes, 64).unwrap();
    assert_eq!(back.get(40..42), Some(&[1.976_928_7, -5.979_004][..]));
    assert_eq!(weighted(&back), 200.072_753_906_25);

    let bytes = encode_floats(FloatEncoding::Q4_0, &values).unwrap();
    assert_eq!(
        hex(&bytes),
        "403ae046acf258bd1379df358be046acf26820ba740fb953fd9731eb852fca640ea842fd"
    );
    let back = decode(FloatEncoding::Q4_0, &bytes, 64).unwrap();
    assert_eq!(back.get(40..42), Some(&[2.296_875, -5.359_375][..]));
    assert_eq!(weighted(&back), 214.8125);
}

/// `b = ((numpy.arange(210) * 73 + 11) % 256).astype(numpy.uint8); b[208] = 0x66; b[209] = 0x2c`, then
/// every 17th of `gguf.quants.dequantize(b.reshape(1, -1), Q6_K).ravel()`.
#[test]
fn q6_k_equals_gguf_py() {
    let mut bytes: Vec<u8> = (0..210).map(|i| ((i * 73 + 11) % 256) as u8).collect();
    bytes.get_mut(208..).unwrap().copy_from_slice(&[0x66, 0x2c]);
    let values = decode(FloatEncoding::Q6_K, &bytes, 256).unwrap();
    let every_17th: Vec<f32> = values.iter().copied().step_by(17).collect();
    let expected = [
        -98.346_31,
        -38.486_33,
        185.3529,
        61.853_027,
        -2.336_67,
        -123.156_25,
        17.456_299,
        77.934_814,
        24.809_937,
        -126.455_08,
        68.794_31,
        -37.111_816,
        -18.899_536,
        -219.921_88,
        -22.679_443,
        4.948_242,
    ];
    assert_eq!(every_17th, expected);
    assert_eq!(weighted(&values), -20_269.924_316_406_25);
}

#[test]
fn plain_floats_round_trip_bit_for_bit() {
    let values: Vec<f32> = (0..200).map(|i| (i - 100) as f32 * 0.25).collect();
    for &encoding in FloatEncoding::ALL.iter().filter(|float| float.is_plain()) {
        let bytes = encode_floats(encoding, &values).unwrap();
        assert_eq!(bytes.len() as u64, encoding.row_size(200).unwrap());
        assert_eq!(decode(encoding, &bytes, 200).unwrap(), values, "{encoding}");
    }
}

/// Compares every f16 and bf16 with the reference conversion.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn all_halves_decode_correctly() {
    for bits in 0..=u16::MAX {
        for (encoding, value) in [
            (FloatEncoding::F16, half::f16::from_bits(bits).to_f32()),
            (FloatEncoding::BF16, half::bf16::from_bits(bits).to_f32()),
        ] {
            let read = decode(encoding, &bits.to_le_bytes(), 1);
            if value.is_finite() {
                assert_eq!(read.unwrap(), [value]);
            } else {
                assert!(matches!(read, Err(EncodingError::NotFinite { index: 0, .. })));
            }
        }
    }
}

/// The error of a value is at most what the encoding claims, and a block of zeros stays zero.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn rounding_stays_within_its_bound() {
    let mut random = Random(17);
    let values: Vec<f32> = (0..1024)
        .map(|at| {
            let size = [1.0, 1e-3, 50.0, 0.0].get(at / 256).unwrap();
            (random.below(2001) as f32 / 1000.0 - 1.0) * size
        })
        .collect();
    for &encoding in FloatEncoding::ALL.iter().filter(|float| float.is_writable()) {
        let bytes = encode_floats(encoding, &values).unwrap();
        let back = decode(encoding, &bytes, values.len()).unwrap();
        let blocks = values.chunks(encoding.block_len()).zip(back.chunks(encoding.block_len()));
        for (values, back) in blocks {
            let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            for (value, back) in values.iter().zip(back) {
                let bound = encoding.max_error(*value, largest);
                assert!((value - back).abs() <= bound, "{encoding}: {value} {back}");
            }
        }
        assert!(back.iter().skip(768).all(|value| *value == 0.0), "{encoding}");
    }
}

/// The search must give a smaller error than the scale of the largest value.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn the_search_of_q6_k_lowers_the_error() {
    let mut random = Random(19);
    let mut bell = || (0..6).map(|_| random.below(1000) as f32 / 500.0 - 1.0).sum::<f32>();
    let values: Vec<f32> = (0..256 * 40).map(|_| bell()).collect();
    let bytes = encode_floats(FloatEncoding::Q6_K, &values).unwrap();
    let back = decode(FloatEncoding::Q6_K, &bytes, values.len()).unwrap();
    let square = |a: f32, b: f32| f64::from(a - b).powi(2);
    let ours: f64 = values.iter().zip(&back).map(|(a, b)| square(*a, *b)).sum();
    let plain: f64 = values
        .chunks(16)
        .map(|sub| {
            let largest = sub.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let step = largest / 31.0;
            sub.iter().map(|value| square(*value, (value / step).round() * step)).sum::<f64>()
        })
        .sum();
    assert!(ours < plain, "{ours} {plain}");
}

#[test]
fn rejects_invalid_floats() {
    let error = decode(FloatEncoding::F32, &[0; 10], 3).unwrap_err();
    assert_eq!(error.to_string(), "F32 of 1 x 3 takes 12 bytes, found 10");
    let error = decode(FloatEncoding::Q6_K, &[0; 34], 32).unwrap_err();
    assert_eq!(error.to_string(), "Q6_K requires columns in multiples of 256, found 32");
    let mut bytes = [0; 68];
    bytes.get_mut(34..36).unwrap().copy_from_slice(&[0x00, 0x7c]);
    bytes.get_mut(36..).unwrap().fill(1);
    let error = decode(FloatEncoding::Q8_0, &bytes, 64).unwrap_err();
    assert_eq!(error.to_string(), "byte 34 (value 32): found inf, allowed are finite numbers");
    for &encoding in FloatEncoding::ALL {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut values = [1.0; 256];
            *values.get_mut(77).unwrap() = bad;
            let error = encode_floats(encoding, &values).unwrap_err();
            assert!(matches!(error, EncodingError::NotFinite { index: 77, .. }), "{encoding}");
        }
    }
    assert!(encode_floats(FloatEncoding::F16, &[70_000.0]).is_err());
    assert!(encode_floats(FloatEncoding::BF16, &[f32::MAX]).is_err());
    assert!(encode_floats(FloatEncoding::Q8_0, &[1e20; 32]).is_err());
}

#[test]
fn any_bytes_give_finite_floats_or_an_error() {
    let mut random = Random(23);
    for round in 0..if cfg!(miri) { 30 } else { 3000 } {
        let encoding = *FloatEncoding::ALL.get(round % FloatEncoding::ALL.len()).unwrap();
        let len = 32 * random.below(20);
        let size = encoding.row_size(len).map_or(random.below(300), |size| size as usize);
        let bytes: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        if let Ok(values) = decode(encoding, &bytes, len) {
            assert!(values.iter().all(|value| value.is_finite()), "{encoding}");
        }
    }
}

#[test]
fn codes_times_scales_are_the_floats_bit_for_bit() {
    let mut random = Random(5);
    for &encoding in FloatEncoding::ALL.iter().filter(|float| float.has_codes()) {
        for cols in [256, 1024] {
            let size = encoding.row_size(cols).unwrap() as usize;
            // Any bytes that give finite values.
            let (bytes, floats) = loop {
                let bytes: Vec<u8> = (0..size).map(|_| random.next() as u8 & 0xbf).collect();
                if let Ok(floats) = decode(encoding, &bytes, cols) {
                    break (bytes, floats);
                }
            };
            let groups = cols / CODES_PER_SCALE;
            let factors = if encoding.has_minima() { 2 * groups } else { groups };
            let (mut codes, mut scales) = (vec![0; cols], vec![0.0; factors]);
            decode_codes(encoding, &bytes, &mut codes, &mut scales).unwrap();
            let values = codes.iter().enumerate().map(|(at, &code)| {
                let group = at / CODES_PER_SCALE;
                let minimum = scales.get(groups + group).copied().unwrap_or(0.0);
                f32::from(code) * scales.get(group).unwrap() - minimum
            });
            let bits: Vec<u32> = values.map(f32::to_bits).collect();
            let expected: Vec<u32> = floats.iter().map(|value| value.to_bits()).collect();
            assert_eq!(bits, expected, "{encoding}");
        }
    }
}

#[test]
fn codes_require_block_encodings_and_complete_rows() {
    let (mut codes, mut scales) = (vec![0; 32], vec![0.0; 2]);
    let mut decode =
        |encoding, bytes: &[u8]| decode_codes(encoding, bytes, &mut codes, &mut scales);
    assert!(decode(FloatEncoding::Q8_0, &[0; 34]).is_ok());
    assert!(decode(FloatEncoding::Q8_0, &[0; 33]).is_err());
    assert!(decode(FloatEncoding::Q6_K, &[0; 210]).is_err());
    assert!(decode(FloatEncoding::F16, &[0; 64]).is_err());
}

/// Blocks of random bytes, decoded by gguf-py (`tools/golden/tables.py`).
#[derive(serde::Deserialize)]
struct Recorded {
    name: String,
    bytes: String,
    /// Bits of the values.
    values: Vec<u32>,
}

#[test]
fn every_block_encoding_equals_gguf_py() {
    let json = include_str!("../../../../../tests/data/tables.json");
    let recorded: Vec<Recorded> = serde_json::from_str(json).unwrap();
    let mut names: Vec<&str> = recorded.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    let blocks = FloatEncoding::ALL.iter().filter(|float| !float.is_plain());
    let mut expected: Vec<&str> = blocks.map(|float| float.name()).collect();
    expected.sort_unstable();
    assert_eq!(names, expected, "one record of each");
    for Recorded { name, bytes, values } in recorded {
        let encoding: FloatEncoding = name.parse().unwrap();
        let digits: Vec<u8> = bytes.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
        let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect();
        let found = decode(encoding, &bytes, values.len()).unwrap();
        let bits: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, values, "{name}");
    }
}

#[test]
fn encodings_that_are_only_read_say_so() {
    let error = encode_floats(FloatEncoding::Q4_K, &[0.0; 256]).unwrap_err();
    assert_eq!(error.to_string(), "Q4_K can be read, but not written");
}
