//! The names of the instruction sets there are kernels for.

use std::fmt;
use std::str::FromStr;

/// Instruction sets we have kernels for; those of one CPU slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust: the definition of correct.
    Scalar,
    /// Baseline ARMv8.0.
    Neon,
    /// NEON with the dot products of bytes of ARMv8.2.
    NeonDotprod,
    /// NEON with dot products and the products of small matrices of bytes of ARMv8.6.
    NeonI8mm,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, VL and DQ.
    Avx512,
    /// AVX2 with FMA, F16C and AVX-VNNI.
    AvxVnni,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512Vnni,
    /// As AVX-512 with VNNI, and AMX int8 tiles for products of many tokens.
    Amx,
}

impl Isa {
    /// Every instruction set, whether this CPU has it or not.
    pub const ALL: [Self; 9] = [
        Self::Scalar,
        Self::Neon,
        Self::NeonDotprod,
        Self::NeonI8mm,
        Self::Avx2,
        Self::Avx512,
        Self::AvxVnni,
        Self::Avx512Vnni,
        Self::Amx,
    ];

    /// The name it goes by on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::NeonDotprod => "dotprod",
            Self::NeonI8mm => "i8mm",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::AvxVnni => "avxvnni",
            Self::Avx512Vnni => "avx512vnni",
            Self::Amx => "amx",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Self, UnknownIsa> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| UnknownIsa(name.to_owned()))
    }
}

/// A name that is not the name of an instruction set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa(String);

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown instruction set {:?}, allowed are {}",
            self.0,
            Isa::ALL.map(Isa::name).join(", ")
        )
    }
}

impl std::error::Error for UnknownIsa {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.to_string().parse(), Ok(isa));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_allowed_ones() {
        let error = "sse9".parse::<Isa>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown instruction set \"sse9\", allowed are scalar, neon, dotprod, i8mm, avx2, \
             avx512, avxvnni, avx512vnni, amx"
        );
    }
}
