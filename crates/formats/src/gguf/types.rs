//! Which encoding a GGUF type number stands for.
//!
//! Numbers 36 to 42 mean different things in different projects, so a number alone decides nothing:
//! the bytes between a tensor and the next one do.
//!
//! ```text
//! 36   I2_S in BitNet's fork           IQ4_NL_4_4 in llama.cpp of late 2024
//! 38   TL1  in BitNet's fork           IQ4_NL_8_8
//! 39   TL2  in BitNet's fork           MXFP4 in llama.cpp since 2025
//! 42   Q2_0 in groups of 64            Q2_0 in groups of 128 in PrismML's fork
//! ```

use crate::encoding::{FloatEncoding, I2sOrder, TernaryEncoding};
use crate::size;
use crate::tensor::Encoding;

/// What our GGUF reader can read, for messages.
pub(crate) const SUPPORTED: &str = "supported are F32 (0), F16 (1), Q4_0 (2), Q8_0 (8), Q6_K (14), \
     BF16 (30), TQ1_0 (34), TQ2_0 (35), I2_S (36), TL1 (38), TL2 (39), Q2_0 (42), IQ1_BN (134), IQ2_BN (135) and IQ2_BN_R4 (335)";

/// Type numbers on which all projects agree.
const AGREED: [(u32, Encoding); 11] = [
    (0, Encoding::Float(FloatEncoding::F32)),
    (1, Encoding::Float(FloatEncoding::F16)),
    (2, Encoding::Float(FloatEncoding::Q4_0)),
    (8, Encoding::Float(FloatEncoding::Q8_0)),
    (14, Encoding::Float(FloatEncoding::Q6K)),
    (30, Encoding::Float(FloatEncoding::Bf16)),
    (34, Encoding::Ternary(TernaryEncoding::Tq1_0)),
    (35, Encoding::Ternary(TernaryEncoding::Tq2_0)),
    (134, Encoding::Ternary(TernaryEncoding::Iq1Bn)),
    (135, Encoding::Ternary(TernaryEncoding::Iq2Bn)),
    (335, Encoding::Ternary(TernaryEncoding::Iq2BnR4)),
];

/// The encoding of a type number on which all projects agree.
pub(crate) fn agreed(type_id: u32) -> Option<Encoding> {
    AGREED.iter().find(|(id, _)| *id == type_id).map(|(_, encoding)| *encoding)
}

/// The type number we write an encoding with; `None` if GGUF has none.
pub(crate) fn type_id(encoding: Encoding) -> Option<u32> {
    match encoding {
        Encoding::Ternary(TernaryEncoding::I2s(_)) => Some(36),
        Encoding::Ternary(TernaryEncoding::Q2_0 { .. }) => Some(42),
        _ => AGREED.iter().find(|(_, known)| *known == encoding).map(|(id, _)| *id),
    }
}

/// What a type number that we cannot read is called, for messages.
pub(crate) fn foreign_name(type_id: u32) -> &'static str {
    match type_id {
        3 => "Q4_1",
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        12 => "Q4_K",
        13 => "Q5_K",
        15 => "Q8_K",
        16..=23 | 29 => "an IQ type",
        24..=28 => "an integer or F64 type",
        31..=33 => "a removed Q4_0 type",
        37 => "I8_S (activations) of BitNet's fork",
        40 => "NVFP4",
        41 => "Q1_0",
        _ => "unknown",
    }
}

/// How many bytes a tensor may take: up to the next tensor, or to the end of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes from the tensor's first byte to the next tensor or the end of the file.
    pub(crate) bytes: u64,
    /// Whether the end of the file is what ends it; then padding may be missing.
    pub(crate) last: bool,
    /// Tensors start at multiples of this.
    pub(crate) alignment: u64,
}

impl Room {
    /// Whether a tensor of `len` bytes fills the room but for padding.
    fn is_filled_by(self, len: u64) -> bool {
        let padded = size::align_up(len, self.alignment);
        padded == Some(self.bytes) || (self.last && len == self.bytes)
    }
}

/// Reads number 36: I2_S, unless the room says that it is llama.cpp's retired type.
pub(crate) fn type_36(weights: u64, room: Room, order: I2sOrder) -> Result<Encoding, String> {
    let i2_s = size::end(weights / 4, 32);
    let iq4_nl = size::product(&[weights / 32, 18]);
    let fills = |len: Option<u64>| len.is_some_and(|len| room.is_filled_by(len));
    if !fills(i2_s) && fills(iq4_nl) {
        return Err(
            "type 36 with 18 bytes for 32 weights is IQ4_NL_4_4 of old llama.cpp, not I2_S; \
             it is not ternary"
                .to_owned(),
        );
    }
    Ok(Encoding::Ternary(TernaryEncoding::I2s(order)))
}

/// Reads number 42: the group length, if the room fits exactly one; `Ok(None)` if it fits both.
pub(crate) fn type_42(weights: u64, room: Room) -> Result<Option<usize>, String> {
    let fits = |group_len: u64, group_bytes: u64| {
        let groups = weights.checked_div(group_len).filter(|_| weights.is_multiple_of(group_len));
        let len = groups.and_then(|groups| size::product(&[groups, group_bytes]));
        len.is_some_and(|len| room.is_filled_by(len))
    };
    match (fits(64, 18), fits(128, 34)) {
        (true, true) => Ok(None),
        (true, false) => Ok(Some(64)),
        (false, true) => Ok(Some(128)),
        (false, false) => Err(format!(
            "type 42 (Q2_0) with {} bytes for {weights} weights fits neither groups of 64 (18 bytes) \
             nor of 128 (34 bytes)",
            room.bytes
        )),
    }
}

/// Refuses numbers 38 and 39 where the room says that they are not TL1 and TL2.
pub(crate) fn check_tiled(type_id: u32, weights: u64, room: Room) -> Result<(), String> {
    let (other, bytes) = if type_id == 38 { ("IQ4_NL_8_8", 18) } else { ("MXFP4", 17) };
    let len = size::product(&[weights / 32, bytes]);
    if len.is_some_and(|len| room.is_filled_by(len)) {
        return Err(format!(
            "type {type_id} with {bytes} bytes for 32 weights is {other} of llama.cpp, which is not \
             ternary"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64) -> Room {
        Room { bytes, last: false, alignment: 32 }
    }

    #[test]
    fn type_36_is_told_apart_by_its_size() {
        let weights = 512 * 512;
        let order = I2sOrder::Groups128;
        let ours = type_36(weights, room(weights / 4 + 32), order);
        assert_eq!(ours, Ok(Encoding::Ternary(TernaryEncoding::I2s(order))));
        assert!(
            type_36(weights, room(weights / 32 * 18), order).unwrap_err().contains("IQ4_NL_4_4")
        );
    }

    #[test]
    fn type_42_is_told_apart_by_its_size() {
        let weights = 512 * 512;
        assert_eq!(type_42(weights, room(weights / 64 * 18)), Ok(Some(64)));
        assert_eq!(type_42(weights, room(weights / 128 * 34)), Ok(Some(128)));
        assert!(type_42(weights, room(weights / 4)).is_err());
        // 128 weights: 36 or 34 bytes, and both are 64 when padded.
        assert_eq!(type_42(128, room(64)), Ok(None));
        assert_eq!(type_42(128, Room { bytes: 34, last: true, alignment: 32 }), Ok(Some(128)));
    }
}
