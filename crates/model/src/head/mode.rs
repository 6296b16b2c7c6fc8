//! Modes of the output head.

use std::fmt;
use std::str::FromStr;

/// Computation of logits from hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadMode {
    /// `Scan` for tables larger than the CPU caches, otherwise `Full`.
    #[default]
    Auto,
    /// Reads every row of the table.
    Full,
    /// Finds the best tokens by reading an int8 copy and the rows that could be among them: half the
    /// bytes of a 16-bit table, for half of its memory. The same tokens as `Full`, by proof.
    Scan,
    /// Like `Scan`, reading the upper four bits of the copy: a quarter of the bytes. The same tokens
    /// with overwhelming probability, but without proof.
    Scan4,
    /// Computes all logits from the int8 copy: half the bytes in every case, but logits differ from
    /// those of the table.
    Int8,
    /// Runs `Full`, `Scan` and `Scan4`, and panics if they differ. For testing.
    Check,
}

impl HeadMode {
    /// All modes.
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

/// Error for a string that names no [`HeadMode`].
#[derive(Debug, thiserror::Error)]
#[error("unknown head mode {0:?}: must be auto, full, scan, scan4, int8 or check")]
pub struct UnknownHeadMode(String);

impl FromStr for HeadMode {
    type Err = UnknownHeadMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownHeadMode(name.to_owned()))
    }
}
