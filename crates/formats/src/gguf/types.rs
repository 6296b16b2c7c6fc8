//! GGUF type numbers.
//!
//! Some numbers are used by several projects for different types. The number of bytes up to the next
//! tensor tells them apart.
//!
//! ```text
//! 36   I2_S in BitNet's fork           IQ4_NL_4_4 in llama.cpp of late 2024
//! 38   TL1  in BitNet's fork           IQ4_NL_8_8
//! 39   TL2  in BitNet's fork           MXFP4 in llama.cpp since 2025
//! 42   Q2_0 in groups of 64            Q2_0 in groups of 128, or Q1_0 in groups of 32, in PrismML's fork
//! 142  PQ2_0 in PrismML's fork         IQ2_TN in ik_llama.cpp of 2024
//! 143  PTQ1_0 in PrismML's fork        IQ1_TN in ik_llama.cpp of 2024
//! ```

use crate::encoding::{FloatEncoding, I2sOrder, TernaryEncoding};
use crate::size;
use crate::tensor::Encoding;

pub(crate) const I2_S: u32 = 36;
pub(crate) const TL1: u32 = 38;
pub(crate) const TL2: u32 = 39;
pub(crate) const Q2_0: u32 = 42;
pub(crate) const PQ2_0: u32 = 142;
pub(crate) const PTQ1_0: u32 = 143;

/// Every encoding with a type number.
fn known() -> impl Iterator<Item = (u32, Encoding)> {
    let floats = FloatEncoding::ALL.iter().map(|&e| (e.gguf_type(), Encoding::Float(e)));
    let ternary = TernaryEncoding::ALL.iter();
    floats.chain(ternary.filter_map(|&e| Some((e.gguf_type()?, Encoding::Ternary(e)))))
}

/// Returns the encoding of a type number that means the same in all projects.
pub(crate) fn unambiguous(type_id: u32) -> Option<Encoding> {
    if [I2_S, TL1, TL2, Q2_0].contains(&type_id) {
        return None;
    }
    known().find(|(id, _)| *id == type_id).map(|(_, encoding)| encoding)
}

/// Returns the type number of an encoding; `None` if GGUF has none, or none that is written.
pub(crate) fn type_id(encoding: Encoding) -> Option<u32> {
    match encoding {
        Encoding::Ternary(ternary) => ternary.gguf_type().filter(|_| ternary.is_writable()),
        Encoding::Float(float) => Some(float.gguf_type()),
        Encoding::MasterWeights(_) | Encoding::TernaryFloats(_) => None,
    }
}

/// Lists the types that can be read, for messages.
pub(crate) fn supported() -> String {
    let mut types: Vec<_> = known().map(|(id, encoding)| (id, encoding.name())).collect();
    types.sort_unstable();
    types.dedup();
    let types: Vec<String> = types.iter().map(|(id, name)| format!("{name} ({id})")).collect();
    let (last, others) = types.split_last().expect("there are encodings");
    format!("supported are {} and {last}", others.join(", "))
}

/// Describes a type that is not supported: its name, or who may use the number and what to do.
pub(crate) fn describe_foreign(type_id: u32) -> &'static str {
    match type_id {
        4 | 5 => "Q4_2 or Q4_3, removed from llama.cpp in 2023",
        9 => "Q8_1",
        15 => "Q8_K",
        16..=19 | 21 | 22 | 29 => "an IQ type",
        24..=28 => "an integer or F64 type",
        31..=33 => "a removed Q4_0 type",
        37 => "I8_S (activations) of BitNet's fork",
        40 => "NVFP4",
        133 | 136..=158 | 200..=334 | 336..=399 => "a type of ik_llama.cpp that is not ternary",
        43..=132 | 159..=199 => {
            "free in the programs known to wf: a newer llama.cpp or a fork may use it; update wf, or convert the \
             model again from its original"
        }
        _ => "not of any known program: the file is damaged, or of a fork that wf does not know",
    }
}

/// The space for a tensor: up to the next tensor, or to the end of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) bytes: u64,
    /// The space ends with the file, so padding may be missing.
    pub(crate) last: bool,
    /// Tensors start at multiples of this.
    pub(crate) alignment: u64,
}

impl Space {
    /// Returns `true` if a tensor of `len` bytes and padding fill the space.
    fn is_filled_by(self, len: Option<u64>) -> bool {
        let padded = len.and_then(|len| size::align_up(len, self.alignment));
        padded == Some(self.bytes) || (self.last && len == Some(self.bytes))
    }

    /// Returns `true` if groups of `group_len` weights in `group_bytes` bytes and padding fill the space.
    fn is_filled_by_groups(self, weights: u64, group_len: u64, group_bytes: u64) -> bool {
        let groups = weights.checked_div(group_len).filter(|_| weights.is_multiple_of(group_len));
        self.is_filled_by(groups.and_then(|groups| groups.checked_mul(group_bytes)))
    }
}

/// Decides number 36: I2_S, unless the space is that of llama.cpp's retired type.
pub(crate) fn type_36(weights: u64, space: Space, order: I2sOrder) -> Result<Encoding, String> {
    let is_i2_s = space.is_filled_by((weights / 4).checked_add(32));
    if !is_i2_s && space.is_filled_by_groups(weights, 32, 18) {
        return Err(
            "type 36 with 18 bytes for 32 weights is IQ4_NL_4_4 of old llama.cpp, not I2_S; \
             it is not ternary"
                .to_owned(),
        );
    }
    Ok(Encoding::Ternary(order.encoding()))
}

/// Decides number 42: the groups that fill the space; `Ok(None)` if both do.
pub(crate) fn type_42(weights: u64, space: Space) -> Result<Option<TernaryEncoding>, String> {
    let fits = |len, bytes| space.is_filled_by_groups(weights, len, bytes);
    match (fits(64, 18), fits(128, 34)) {
        (true, true) => Ok(None),
        (true, false) => Ok(Some(TernaryEncoding::Q2_0)),
        (false, true) => Ok(Some(TernaryEncoding::Q2_0_G128)),
        (false, false) if fits(32, 6) => Err(format!(
            "type 42 with {} bytes for {weights} weights is a Q1_0 in groups of 32 of PrismML's fork of \
             April 2026, which no other program uses; llama.cpp uses 42 for Q2_0: convert the original \
             model again, to type 41 (Q1_0)",
            space.bytes
        )),
        (false, false) => Err(format!(
            "type 42 (Q2_0) with {} bytes for {weights} weights fits neither groups of 64 (18 bytes) \
             nor of 128 (34 bytes)",
            space.bytes
        )),
    }
}

/// Rejects numbers 142 and 143 if the space is that of other types than PQ2_0 and PTQ1_0. A matrix has `rows`.
pub(crate) fn check_prism(
    type_id: u32,
    rows: u64,
    weights: u64,
    space: Space,
) -> Result<(), String> {
    let after_scales = |scale: u64, len: u64, bytes: u64| {
        let groups = weights.checked_div(len).filter(|_| weights.is_multiple_of(len))?;
        groups.checked_mul(bytes)?.checked_add(rows.checked_mul(scale)?)
    };
    let (ours, other, next, is_other) = if type_id == PQ2_0 {
        let fits = space.is_filled_by_groups(weights, 128, 34);
        let rows_of = space.is_filled_by(after_scales(4, 256, 64));
        (
            "PQ2_0",
            "IQ2_TN",
            "IQ2_BN",
            !fits && (rows_of || space.is_filled_by_groups(weights, 256, 66)),
        )
    } else {
        let fits = space.is_filled_by_groups(weights, 128, 28);
        ("PTQ1_0", "IQ1_TN", "IQ1_BN", !fits && space.is_filled_by(after_scales(2, 64, 13)))
    };
    if !is_other {
        return Ok(());
    }
    Err(format!(
        "type {type_id} with {} bytes for {weights} weights is {other} of ik_llama.cpp of 2024; it is read as \
         {ours} of PrismML's fork: convert the original model again, to {next}",
        space.bytes
    ))
}

/// Rejects numbers 38 and 39 if the space is that of other types than TL1 and TL2.
pub(crate) fn check_tiled(type_id: u32, weights: u64, space: Space) -> Result<(), String> {
    let (other, bytes) = if type_id == TL1 { ("IQ4_NL_8_8", 18) } else { ("MXFP4", 17) };
    if !space.is_filled_by_groups(weights, 32, bytes) {
        return Ok(());
    }
    Err(format!(
        "type {type_id} with {bytes} bytes for 32 weights is {other} of llama.cpp, which is not ternary"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(bytes: u64) -> Space {
        Space { bytes, last: false, alignment: 32 }
    }

    #[test]
    fn type_36_is_decided_by_its_size() {
        let weights = 512 * 512;
        let order = I2sOrder::Groups128;
        let ours = type_36(weights, space(weights / 4 + 32), order);
        assert_eq!(ours, Ok(Encoding::Ternary(TernaryEncoding::I2_S)));
        assert!(
            type_36(weights, space(weights / 32 * 18), order).unwrap_err().contains("IQ4_NL_4_4")
        );
    }

    #[test]
    fn type_42_is_decided_by_its_size() {
        let weights = 512 * 512;
        assert_eq!(type_42(weights, space(weights / 64 * 18)), Ok(Some(TernaryEncoding::Q2_0)));
        assert_eq!(
            type_42(weights, space(weights / 128 * 34)),
            Ok(Some(TernaryEncoding::Q2_0_G128))
        );
        assert!(type_42(weights, space(weights / 4)).is_err());
        let clash = type_42(weights, space(weights / 32 * 6)).unwrap_err();
        assert!(clash.contains("Q1_0 in groups of 32 of PrismML's fork"), "{clash}");
        // 128 weights: 36 or 34 bytes, and both are 64 when padded.
        assert_eq!(type_42(128, space(64)), Ok(None));
        let last = Space { bytes: 34, last: true, alignment: 32 };
        assert_eq!(type_42(128, last), Ok(Some(TernaryEncoding::Q2_0_G128)));
    }

    #[test]
    fn types_142_and_143_of_ik_llama_cpp_are_named() {
        let (rows, weights) = (512, 512 * 512);
        let check = |type_id, bytes| check_prism(type_id, rows, weights, space(bytes));
        assert_eq!(check(PQ2_0, weights / 128 * 34), Ok(()));
        assert_eq!(check(PTQ1_0, weights / 128 * 28), Ok(()));
        for bytes in [weights / 256 * 66, weights / 4 + 4 * rows] {
            assert!(check(PQ2_0, bytes).unwrap_err().contains("is IQ2_TN of ik_llama.cpp"));
        }
        let error = check(PTQ1_0, weights / 64 * 13 + 2 * rows).unwrap_err();
        assert!(error.contains("is IQ1_TN of ik_llama.cpp of 2024"), "{error}");
    }

    #[test]
    fn numbers_of_no_known_type_tell_who_may_use_them() {
        assert!(describe_foreign(60).contains("a newer llama.cpp or a fork may use it"));
        assert!(describe_foreign(100_000).contains("not of any known program"));
        assert!(describe_foreign(137).contains("ik_llama.cpp"));
        assert_eq!(describe_foreign(40), "NVFP4");
    }
}
