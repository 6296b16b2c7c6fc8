//! The names of the types keys and values can have.

use std::fmt;
use std::str::FromStr;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvDtype {
    /// 32-bit floats: what was computed.
    F32,
    /// The upper half of a 32-bit float.
    Bf16,
    /// IEEE half precision; values beyond ±65504 become infinite.
    F16,
    /// Eight-bit floats with three bits of fraction, and a scale for each position and head.
    Fp8E4m3,
    /// Eight-bit floats with two bits of fraction, and a scale for each position and head.
    Fp8E5m2,
    /// Integers, with a scale for each position and head.
    Int8,
}

impl KvDtype {
    /// Every type, by falling size.
    pub const ALL: [Self; 6] =
        [Self::F32, Self::Bf16, Self::F16, Self::Fp8E4m3, Self::Fp8E5m2, Self::Int8];

    /// The name it goes by on the command line.
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

    /// Bytes of one element, without scales.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Fp8E4m3 | Self::Fp8E5m2 | Self::Int8 => 1,
        }
    }

    /// Whether positions have scales.
    pub(super) fn is_scaled(self) -> bool {
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

/// A name that is not the name of a K/V type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKvDtype(String);

impl fmt::Display for UnknownKvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = KvDtype::ALL.map(KvDtype::name).join(", ");
        write!(f, "unknown K/V type {:?}, allowed are {names}", self.0)
    }
}

impl std::error::Error for UnknownKvDtype {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for dtype in KvDtype::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_allowed_ones() {
        let error = "int3".parse::<KvDtype>().unwrap_err().to_string();
        let allowed = "f32, bf16, f16, fp8-e4m3, fp8-e5m2, int8";
        assert_eq!(error, format!("unknown K/V type \"int3\", allowed are {allowed}"));
    }
}
