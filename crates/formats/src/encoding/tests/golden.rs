//! Bytes computed by hand, and bytes of other programs.

use super::super::*;

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

fn decode(e: TernaryEncoding, bytes: &[u8], rows: usize, cols: usize) -> Vec<i8> {
    let mut out = vec![9; rows * cols];
    decode_trits(e, bytes, rows, cols, 0..rows, &mut out).unwrap();
    out
}

/// The trits that differ from `usual`, with their flat index.
fn unusual(trits: &[i8], usual: i8) -> Vec<(usize, i8)> {
    trits.iter().copied().enumerate().filter(|(_, trit)| *trit != usual).collect()
}

#[test]
fn i2s_is_high_bits_first_and_a_group_apart() {
    // Byte 1 is 10 00 01 01: trit 1 is +1, trit 33 is -1, trits 65 and 97 are 0.
    let mut bytes = vec![0b0101_0101; 32];
    *bytes.get_mut(1).unwrap() = 0b1000_0101;
    bytes.extend(0.75_f32.to_le_bytes());
    bytes.extend([0xee; 28]);
    let e = TernaryEncoding::I2_S;
    assert_eq!(unusual(&decode(e, &bytes, 1, 128), 0), [(1, 1), (33, -1)]);
    assert_eq!(decode_scales(e, &bytes, 1, 128), Ok(Scales::Tensor(0.75)));
    let e = TernaryEncoding::I2_S_64;
    assert_eq!(unusual(&decode(e, &bytes, 1, 128), 0), [(1, 1), (17, -1)]);
    // Row 0 has the high bits, and column 1 of the first four rows is byte 1.
    let e = TernaryEncoding::I2_S_4ROW;
    assert_eq!(unusual(&decode(e, &bytes, 4, 32), 0), [(1, 1), (33, -1)]);
    assert_eq!(decode_scales(e, &bytes, 4, 32), Ok(Scales::Tensor(0.75)));
}

#[test]
fn hf_packing_is_a_quarter_of_the_matrix_apart() {
    // The example in the documentation of Transformers' unpack_weights.
    let bytes = [0b1010_0001, 0b0001_1000, 0b1001_0000, 0b0000_1010];
    let expected = [0, -1, -1, 1, -1, 1, -1, 1, 1, 0, 0, -1, 1, -1, 1, -1];
    assert_eq!(decode(TernaryEncoding::HF_PACKED, &bytes, 8, 2), expected);
}

#[test]
fn q2_0_is_in_plain_order_behind_its_scale() {
    let mut bytes = vec![0x00, 0x3c]; // 1.0 as f16
    bytes.extend([0b0101_0101; 16]);
    *bytes.get_mut(3).unwrap() = 0b0110_0001; // trits 4..8: 0, -1, +1, 0
    let e = TernaryEncoding::Q2_0;
    assert_eq!(unusual(&decode(e, &bytes, 1, 64), 0), [(5, -1), (6, 1)]);
    assert_eq!(decode_scales(e, &bytes, 1, 64), Ok(Scales::Tensor(1.0)));
}

#[test]
fn iq2_bn_is_low_bits_first_behind_its_scale() {
    let mut bytes = 0.5_f32.to_le_bytes().to_vec();
    bytes.extend([0b0101_0101; 16]);
    *bytes.get_mut(4 + 3).unwrap() = 0b0010_0101; // trits 3, 19, 35, 51: 0, 0, +1, -1
    let e = TernaryEncoding::IQ2_BN;
    assert_eq!(unusual(&decode(e, &bytes, 1, 64), 0), [(35, 1), (51, -1)]);
    assert_eq!(decode_scales(e, &bytes, 1, 64), Ok(Scales::Tensor(0.5)));
}

#[test]
fn iq2_bn_r4_interleaves_four_rows() {
    let mut bytes: Vec<u8> =
        [0.5_f32, 1.0, 2.0, 4.0].iter().flat_map(|scale| scale.to_le_bytes()).collect();
    bytes.extend([0b0101_0101; 64]);
    // Byte 16 * 2 + 4 * 1 + 3: row 1, columns 32 + 3 + 4 f.
    *bytes.get_mut(16 + 39).unwrap() = 0b0110_0001;
    let e = TernaryEncoding::IQ2_BN_R4;
    assert_eq!(unusual(&decode(e, &bytes, 4, 64), 0), [(64 + 39, -1), (64 + 43, 1)]);
    let scales = Scales::Rows(vec![0.5, 1.0, 2.0, 4.0]);
    assert_eq!(decode_scales(e, &bytes, 4, 64), Ok(scales));
}

#[test]
fn iq1_bn_has_its_first_trit_lowest() {
    // All zeros: digits 11111 in base 3 are 121, ceil(256 * 121 / 243) = 128; four digits are 40 -> 43.
    let mut bytes = vec![0x00, 0x38]; // 0.5 as f16
    bytes.extend([128; 12]);
    bytes.push(43);
    // Byte 3 * 1 + 2 holds trits 26..31 as digits 2, 1, 1, 1, 0 (lowest first): 2+3+9+27 = 41 -> 44.
    *bytes.get_mut(2 + 5).unwrap() = 44;
    // The last byte holds trits 15, 31, 47, 63 as digits 0, 1, 1, 2: 3 + 9 + 54 = 66 -> 70.
    *bytes.last_mut().unwrap() = 70;
    let e = TernaryEncoding::IQ1_BN;
    let expected = [(15, -1), (26, 1), (30, -1), (63, 1)];
    assert_eq!(unusual(&decode(e, &bytes, 1, 64), 0), expected);
    assert_eq!(decode_scales(e, &bytes, 1, 64), Ok(Scales::Tensor(0.5)));
}

/// The bytes that gguf-py writes for trit i = (i * i + i / 7) % 3 - 1 with scale 0.5:
///
/// ```text
/// i = numpy.arange(256); t = ((i*i + i//7) % 3 - 1).astype(numpy.float32) * numpy.float32(0.5)
/// gguf.quants.quantize(t.reshape(1, -1), gguf.GGMLQuantizationType.TQ1_0).tobytes().hex()
/// ```
#[test]
fn tq_bytes_equal_gguf_py() {
    let tq1 = "4782901198581cf8b76bc2d685b033c80953e723414782901198581cf8b76bc2\
               e429ee3d35f70d501567a805705c22e38fc1e7560038";
    let tq2 = "589509901901a02a122162562542640680a84a8488589509901901a02a122162\
               09901901a02a122162562542640680a84a8488589509901901a02a1221625625\
               0038";
    let trits: Vec<i8> = (0..256).map(|i| ((i * i + i / 7) % 3) as i8 - 1).collect();
    for (encoding, hex) in [(TernaryEncoding::TQ1_0, tq1), (TernaryEncoding::TQ2_0, tq2)] {
        let bytes = unhex(hex);
        let scales = Scales::Tensor(0.5);
        assert_eq!(decode(encoding, &bytes, 1, 256), trits, "{encoding}");
        assert_eq!(decode_scales(encoding, &bytes, 1, 256), Ok(scales.clone()), "{encoding}");
        let written = encode_trits(encoding, &trits, 1, 256, &scales, Rounding::Exact);
        assert_eq!(written, Ok(bytes), "{encoding}");
    }
}

#[test]
fn q1_0_is_a_sign_bit_behind_its_scale() {
    let mut bytes = vec![0x00, 0x3c]; // 1.0 as f16
    bytes.extend([0; 16]);
    *bytes.get_mut(2 + 3).unwrap() = 0b0000_0101; // weights 24 and 26 are +1
    let e = TernaryEncoding::Q1_0;
    assert_eq!(unusual(&decode(e, &bytes, 1, 128), -1), [(24, 1), (26, 1)]);
    assert_eq!(decode_scales(e, &bytes, 1, 128), Ok(Scales::Tensor(1.0)));
}

#[test]
fn ptq1_0_has_its_first_trit_leading_and_its_scale_last() {
    // All zeros: digits 11111 are 121 -> 128; four digits and a 0 are 120 -> 127.
    let mut bytes = vec![128; 24];
    bytes.extend([127, 127, 0x00, 0x38]); // 0.5 as f16
    // Byte 2 has trits 2, 18, 34, 50, 66: digits 2, 1, 1, 1, 0 are 201 -> 212.
    *bytes.get_mut(2).unwrap() = 212;
    // Byte 17 has trits 81, 89, 97, 105, 113: digits 0, 1, 1, 1, 2 are 41 -> 44.
    *bytes.get_mut(17).unwrap() = 44;
    // Byte 25 has trits 121, 123, 125, 127: digits 1, 1, 1, 2 and a 0 are 123 -> 130.
    *bytes.get_mut(25).unwrap() = 130;
    let e = TernaryEncoding::PTQ1_0;
    let expected = [(2, 1), (66, -1), (81, -1), (113, 1), (127, 1)];
    assert_eq!(unusual(&decode(e, &bytes, 1, 128), 0), expected);
    assert_eq!(decode_scales(e, &bytes, 1, 128), Ok(Scales::Tensor(0.5)));
}
