//! Data types of the KV cache.

use std::fmt;
use std::str::FromStr;

/// Data type of the keys and values in the KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvDtype {
    /// 32-bit floats: the computed values, unchanged.
    F32,
    /// Brain floats: the upper half of a 32-bit float. The default: half of the memory and no
    /// measurable loss of quality, whatever the range of the values.
    #[default]
    Bf16,
    /// IEEE half precision; values beyond ±65504 become infinite.
    F16,
    /// 8-bit floats with three fraction bits and one scale per position and head.
    Fp8E4m3,
    /// 8-bit floats with two fraction bits and one scale per position and head.
    Fp8E5m2,
    /// 8-bit integers with one scale per position and head.
    Int8,
}

impl KvDtype {
    /// All types, largest first.
    pub const ALL: [Self; 6] =
        [Self::F32, Self::Bf16, Self::F16, Self::Fp8E4m3, Self::Fp8E5m2, Self::Int8];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Fp8E4m3 => "fp8-e4m3",
            Self::Fp8E5m2 => "fp8-e5m2",
            Self::Int8 => "int8",
        }
    }

    /// Size of one element in bytes, without its share of a scale.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Fp8E4m3 | Self::Fp8E5m2 | Self::Int8 => 1,
        }
    }

    /// Returns `true` if each position and head carries a scale.
    pub fn is_scaled(self) -> bool {
        self.size() == 1
    }
}

impl fmt::Display for KvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for KvDtype {
    type Err = UnknownKvDtype;

    fn from_str(name: &str) -> Result<Self, UnknownKvDtype> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| UnknownKvDtype(name.to_owned()))
    }
}

/// Error for a string that names no [`KvDtype`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKvDtype(String);

impl fmt::Display for UnknownKvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = KvDtype::ALL.map(KvDtype::name).join(", ");
        write!(f, "unknown KV cache type {:?}: must be one of {names}", self.0)
    }
}

impl std::error::Error for UnknownKvDtype {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for dtype in KvDtype::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_ones() {
        let error = "int3".parse::<KvDtype>().unwrap_err().to_string();
        let known = "f32, bf16, f16, fp8-e4m3, fp8-e5m2, int8";
        assert_eq!(error, format!("unknown KV cache type \"int3\": must be one of {known}"));
    }
}
