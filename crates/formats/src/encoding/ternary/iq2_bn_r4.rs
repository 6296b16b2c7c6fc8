//! IQ2_BN_R4 (ik_llama.cpp): four rows together. Four f32 scales, then 64 bytes per 64 columns. Field
//! `f` of byte `16 l + 4 k + i` is row `k`, column `16 l + 4 f + i`.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{BadByte, Bundles, Codec, GgufType, Layout, Project};
use super::fields::{bad_code, code_of, threes, trit_of};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

const ROWS: usize = 4;

impl TernaryEncoding {
    /// IQ2_BN with four rows interleaved.
    pub const IQ2_BN_R4: Self = Self::new(&Codec {
        name: "IQ2_BN_R4",
        label: "IQ2_BN_R4",
        flag: Some("iq2_bn_r4"),
        gguf: Some(GgufType { id: 335, project: Project::IkLlama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            rows: ROWS,
            head_len: 16,
            block_cols: 64,
            block_len: 64,
            scales: Some(StoredScales {
                unit: ScaleUnit::Row,
                float: ScaleFloat::F32,
                at: ScalesAt::Head,
            }),
            decode,
            encode,
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let (bundle, k) = (r / 4 * (16 + cols) + 16 + c / 64 * 64, r % 4);
            let (l, f, i) = (c % 64 / 16, c % 16 / 4, c % 4);
            Position::Bits { byte: bundle + 16 * l + 4 * k + i, shift: 2 * f }
        }),
    });
}

fn decode(packed: &[u8], k: usize, out: &mut [i8]) -> Result<(), BadByte> {
    let (quads, _) = packed.as_chunks::<4>();
    let (outs, _) = out.as_chunks_mut::<4>();
    let (outs, _) = outs.as_chunks_mut::<4>();
    // Every fourth quad of bytes belongs to the row, and holds its next sixteen columns.
    for (at, (quad, planes)) in quads.iter().skip(k).step_by(ROWS).zip(outs).enumerate() {
        for (field, plane) in planes.iter_mut().enumerate() {
            for (trit, byte) in plane.iter_mut().zip(quad) {
                *trit = trit_of((byte >> (2 * field)) & 3);
            }
        }
        if let Some((i, byte)) = quad.iter().enumerate().find(|(_, byte)| threes(**byte) != 0) {
            let field = threes(*byte).trailing_zeros() as usize / 2;
            return Err(bad_code(16 * at + 4 * k + i, 16 * at + 4 * field + i));
        }
    }
    Ok(())
}

fn encode(trits: &[i8], k: usize, packed: &mut [u8]) {
    let (quads, _) = packed.as_chunks_mut::<4>();
    let (planes, _) = trits.as_chunks::<4>();
    let (planes, _) = planes.as_chunks::<4>();
    for (quad, planes) in quads.iter_mut().skip(k).step_by(ROWS).zip(planes) {
        for (field, plane) in planes.iter().enumerate() {
            for (byte, trit) in quad.iter_mut().zip(plane) {
                *byte |= code_of(*trit) << (2 * field);
            }
        }
    }
}
