//! Q2_0 (llama.cpp): an f16 scale, then 64 trits in plain order, low bits first. A fork has groups of
//! 128.
//!
//! The encoding's own code 3 stands for +2. A ternary model has none, so it is refused as elsewhere.

use super::fields::{BadCode, LOW_FIRST, pack, unpack};

/// Bytes of a group's scale.
const SCALE_BYTES: usize = 2;

/// Bytes of a group and its scale.
pub(super) const fn group_bytes(group_len: usize) -> usize {
    SCALE_BYTES + group_len / 4
}

/// Decodes one row.
pub(super) fn decode_row(row: &[u8], group_len: usize, out: &mut [i8]) -> Result<(), BadCode> {
    let groups = row.chunks_exact(group_bytes(group_len));
    for (at, (group, out)) in groups.zip(out.chunks_exact_mut(group_len)).enumerate() {
        let (_scale, packed) = group.split_at(SCALE_BYTES);
        unpack::<1, LOW_FIRST>(packed, out).map_err(|bad| BadCode {
            byte: at * group.len() + SCALE_BYTES + bad.byte,
            col: at * group_len + bad.col,
        })?;
    }
    Ok(())
}

/// Encodes one row; the scales' bytes are left alone.
pub(super) fn encode_row(trits: &[i8], group_len: usize, row: &mut [u8]) {
    let groups = row.chunks_exact_mut(group_bytes(group_len));
    for (group, trits) in groups.zip(trits.chunks_exact(group_len)) {
        let (_scale, packed) = group.split_at_mut(SCALE_BYTES);
        pack::<1, LOW_FIRST>(trits, packed);
    }
}
