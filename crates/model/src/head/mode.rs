//! The ways of the output head.

use std::fmt;
use std::str::FromStr;

/// How hidden states become scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadMode {
    /// `Scan` for tables that are too large for a cache, else `Full`.
    #[default]
    Auto,
    /// Every row of the table is read.
    Full,
    /// For the best tokens, an int8 copy is read and the rows that could be among them: half the
    /// bytes of a 16-bit table, for half of its memory more. The same tokens as `Full`, by proof.
    Scan,
    /// The same with the upper four bits of the copy: a quarter of the bytes. The same tokens unless
    /// rounding errors conspire; there is no proof that they never do.
    Scan4,
    /// Every score comes from the int8 copy. Half the bytes also where all scores are wanted, but
    /// scores are not those of the table.
    Int8,
    /// `Full`, with the best tokens found by `Scan` and `Scan4` as well: a difference ends the
    /// program. For finding out, not for using.
    Check,
}

impl HeadMode {
    /// Every mode.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Full, Self::Scan, Self::Scan4, Self::Int8, Self::Check];
}

impl fmt::Display for HeadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Scan => "scan",
            Self::Scan4 => "scan4",
            Self::Int8 => "int8",
            Self::Check => "check",
        })
    }
}

/// A name that is no head mode.
#[derive(Debug, thiserror::Error)]
#[error("unknown head mode {0:?}: use auto, full, scan, scan4, int8 or check")]
pub struct UnknownHeadMode(String);

impl FromStr for HeadMode {
    type Err = UnknownHeadMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownHeadMode(name.to_owned()))
    }
}
