//! TQ2_0 and TQ1_0 (llama.cpp): 256 trits and one f16 scale, in 66 or 54 bytes.
//!
//! TQ2_0: two runs of 32 bytes in two-bit fields, low bits first, then the scale.
//!
//! TQ1_0: base-3 bytes, the first trit in the leading digit, then the scale. Digit `k` of byte `j` is
//!
//! ```text
//! bytes  0..32   trit       32 k + j        five digits
//! bytes 32..48   trit 160 + 16 k + j - 32   five digits
//! bytes 48..52   trit 240 +  4 k + j - 48   four digits, the fifth is 0
//! ```

use super::base3::{BadByte, IS_NUMBER, byte_of, number_of};
use super::fields::{BadCode, LOW_FIRST, pack, unpack};

/// Trits under one scale, in both encodings.
pub(super) const GROUP_LEN: usize = 256;
/// Bytes of a TQ2_0 group without its scale.
pub(super) const TQ2_TRIT_BYTES: usize = 64;
/// Bytes of a TQ1_0 group without its scale.
pub(super) const TQ1_TRIT_BYTES: usize = 52;
/// Bytes of a TQ2_0 group.
pub(super) const TQ2_GROUP_BYTES: usize = TQ2_TRIT_BYTES + 2;
/// Bytes of a TQ1_0 group.
pub(super) const TQ1_GROUP_BYTES: usize = TQ1_TRIT_BYTES + 2;

/// Decodes one row of TQ2_0.
pub(super) fn decode_row_2(row: &[u8], out: &mut [i8]) -> Result<(), BadCode> {
    let (groups, _) = row.as_chunks::<TQ2_GROUP_BYTES>();
    let (outs, _) = out.as_chunks_mut::<GROUP_LEN>();
    for (at, (group, out)) in groups.iter().zip(outs).enumerate() {
        let (trits, _scale) = group.split_at(TQ2_TRIT_BYTES);
        unpack::<32, LOW_FIRST>(trits, out).map_err(|bad| BadCode {
            byte: at * TQ2_GROUP_BYTES + bad.byte,
            col: at * GROUP_LEN + bad.col,
        })?;
    }
    Ok(())
}

/// Encodes one row of TQ2_0; the scales' bytes are left alone.
pub(super) fn encode_row_2(trits: &[i8], row: &mut [u8]) {
    let (groups, _) = row.as_chunks_mut::<TQ2_GROUP_BYTES>();
    let (trits, _) = trits.as_chunks::<GROUP_LEN>();
    for (group, trits) in groups.iter_mut().zip(trits) {
        let (packed, _scale) = group.split_at_mut(TQ2_TRIT_BYTES);
        pack::<32, LOW_FIRST>(trits, packed);
    }
}

/// Decodes one row of TQ1_0.
pub(super) fn decode_row_1(row: &[u8], out: &mut [i8]) -> Result<(), BadByte> {
    let (groups, _) = row.as_chunks::<TQ1_GROUP_BYTES>();
    let (outs, _) = out.as_chunks_mut::<GROUP_LEN>();
    for (at, (group, out)) in groups.iter().zip(outs).enumerate() {
        let (bytes, _scale) = group.split_at(TQ1_TRIT_BYTES);
        if let Some(bad) = bytes.iter().enumerate().find_map(bad_byte) {
            return Err(BadByte {
                byte: at * TQ1_GROUP_BYTES + bad.byte,
                col: at * GROUP_LEN + bad.col,
                ..bad
            });
        }
        let (first, rest) = bytes.split_at(32);
        let (second, last) = rest.split_at(16);
        let (out_first, out_rest) = out.split_at_mut(160);
        let (out_second, out_last) = out_rest.split_at_mut(80);
        digits::<32>(first, out_first);
        digits::<16>(second, out_second);
        digits::<4>(last, out_last);
    }
    Ok(())
}

/// Is byte `at` of a group a number no trits encode to? The last four hold four trits only.
fn bad_byte((at, &value): (usize, &u8)) -> Option<BadByte> {
    let (col, trits) = match at {
        0..32 => (at, 5),
        32..48 => (160 + at - 32, 5),
        _ => (240 + at - 48, 4),
    };
    let known = *IS_NUMBER.get(usize::from(value))?;
    let fits = trits == 5 || number_of(value).is_some_and(|number| number % 3 == 0);
    (!(known && fits)).then_some(BadByte { byte: at, col, value, trits })
}

/// Writes the digits of `N` bytes plane by plane, as many planes as `out` has room for.
fn digits<const N: usize>(bytes: &[u8], out: &mut [i8]) {
    let (runs, _) = bytes.as_chunks::<N>();
    let (planes, _) = out.as_chunks_mut::<N>();
    let Some(mut rest) = runs.first().copied() else { return };
    for plane in planes {
        for (trit, rest) in plane.iter_mut().zip(&mut rest) {
            // The leading digit of a fraction in 256ths: floor(3 rest / 256).
            *trit = i8::from(*rest >= 86) + i8::from(*rest >= 171) - 1;
            *rest = rest.wrapping_mul(3);
        }
    }
}

/// Encodes one row of TQ1_0; the scales' bytes are left alone.
pub(super) fn encode_row_1(trits: &[i8], row: &mut [u8]) {
    let (groups, _) = row.as_chunks_mut::<TQ1_GROUP_BYTES>();
    let (trits, _) = trits.as_chunks::<GROUP_LEN>();
    for (group, trits) in groups.iter_mut().zip(trits) {
        let (first, rest) = group.split_at_mut(32);
        let (second, rest) = rest.split_at_mut(16);
        let (last, _scale) = rest.split_at_mut(4);
        let (trits_first, trits_rest) = trits.split_at(160);
        let (trits_second, trits_last) = trits_rest.split_at(80);
        number_bytes::<32>(trits_first, first);
        number_bytes::<16>(trits_second, second);
        number_bytes::<4>(trits_last, last);
    }
}

/// The reverse of `digits`. A plane that is not there counts as digit 0.
fn number_bytes<const N: usize>(trits: &[i8], bytes: &mut [u8]) {
    let (planes, _) = trits.as_chunks::<N>();
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digit = |plane: usize| {
            planes.get(plane).and_then(|plane| plane.get(at)).map_or(0, |trit| (trit + 1) as u8)
        };
        *byte = byte_of((0..5).fold(0, |number, plane| number * 3 + digit(plane)));
    }
}
