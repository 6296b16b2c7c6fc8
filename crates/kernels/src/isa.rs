//! Parsing and formatting the names of instruction sets.

use std::fmt;
use std::str::FromStr;

use crate::arch::Isa;

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

/// The error of parsing an [`Isa`]: an unknown name.
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
    fn every_name_parses() {
        for isa in Isa::ALL {
            assert_eq!(isa.to_string().parse(), Ok(isa));
        }
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_allowed_ones() {
        let error = "sse9".parse::<Isa>().unwrap_err().to_string();
        let (start, names) = error.split_once(" allowed are ").expect("a list");
        assert_eq!(start, "unknown instruction set \"sse9\",");
        assert!(names.split(", ").eq(Isa::ALL.map(Isa::name)), "{names}");
    }
}
