//! TQ1_0 (llama.cpp): 256 trits in 54 bytes. Base-3 numbers with the first trit in the leading digit,
//! then an f16 scale. Digit `k` of byte `j` is
//!
//! ```text
//! bytes  0..32   trit       32 k + j        five digits
//! bytes 32..48   trit 160 + 16 k + j - 32   five digits
//! bytes 48..52   trit 240 +  4 k + j - 48   four digits, the fifth is 0
//! ```

use super::TernaryEncoding;
use super::base3::{IS_NUMBER, bad_number, byte_of, number_of};
#[cfg(test)]
use super::codec::Position;
use super::codec::{
    BadByte, Bundles, Codec, GgufType, Layout, Project, decode_blocks, encode_blocks,
};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

const COLS: usize = 256;
/// Bytes of a block without its scale.
const TRITS_LEN: usize = 52;
const LEN: usize = TRITS_LEN + 2;

impl TernaryEncoding {
    /// llama.cpp: five trits a byte, one f16 scale per 256 trits.
    pub const TQ1_0: Self = Self::new(&Codec {
        name: "TQ1_0",
        label: "TQ1_0",
        flag: Some("tq1_0"),
        gguf: Some(GgufType { id: 34, project: Project::Llama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: COLS,
            block_len: LEN,
            scales: Some(StoredScales {
                unit: ScaleUnit::Group(COLS),
                float: ScaleFloat::F16,
                at: ScalesAt::Block(TRITS_LEN),
            }),
            decode: |blocks, _, out| decode_blocks(blocks, out, decode_block),
            encode: |trits, _, blocks| encode_blocks(trits, blocks, encode_block),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let flat = r * cols + c;
            let (block, at) = (flat / 256 * 54, flat % 256);
            let (byte, digit) = match at {
                0..160 => (at % 32, at / 32),
                160..240 => (32 + (at - 160) % 16, (at - 160) / 16),
                _ => (48 + (at - 240) % 4, (at - 240) / 4),
            };
            Position::Digit { byte: block + byte, digit }
        }),
    });
}

fn decode_block(block: &[u8; LEN], out: &mut [i8; COLS]) -> Result<(), BadByte> {
    let (bytes, _scale) = block.split_at(TRITS_LEN);
    if let Some(bad) = bytes.iter().enumerate().find_map(bad_byte) {
        return Err(bad);
    }
    let (first, rest) = bytes.split_at(32);
    let (second, last) = rest.split_at(16);
    let (out_first, out_rest) = out.split_at_mut(160);
    let (out_second, out_last) = out_rest.split_at_mut(80);
    digits::<32>(first, out_first);
    digits::<16>(second, out_second);
    digits::<4>(last, out_last);
    Ok(())
}

/// Checks byte `at` of a block. The last four hold four trits only.
fn bad_byte((at, &value): (usize, &u8)) -> Option<BadByte> {
    let (col, trits) = match at {
        0..32 => (at, 5),
        32..48 => (160 + at - 32, 5),
        _ => (240 + at - 48, 4),
    };
    let known = *IS_NUMBER.get(usize::from(value))?;
    let fits = trits == 5 || number_of(value).is_some_and(|number| number % 3 == 0);
    (!(known && fits)).then(|| bad_number(at, col, value, trits))
}

/// Writes the digits of `N` bytes plane by plane, as many planes as `out` holds.
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

fn encode_block(trits: &[i8; COLS], block: &mut [u8; LEN]) {
    let (first, rest) = block.split_at_mut(32);
    let (second, rest) = rest.split_at_mut(16);
    let (last, _scale) = rest.split_at_mut(4);
    let (trits_first, trits_rest) = trits.split_at(160);
    let (trits_second, trits_last) = trits_rest.split_at(80);
    number_bytes::<32>(trits_first, first);
    number_bytes::<16>(trits_second, second);
    number_bytes::<4>(trits_last, last);
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
