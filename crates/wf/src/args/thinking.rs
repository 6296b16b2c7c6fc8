//! The flag `--thinking`.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Thinking of a model that thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingArg {
    On,
    Off,
    /// On, for at most so many tokens.
    Limited(usize),
}

impl ThinkingArg {
    pub(crate) fn is_on(self) -> bool {
        self != Self::Off
    }

    pub(crate) fn max_tokens(self) -> Option<usize> {
        match self {
            Self::Limited(tokens) => Some(tokens),
            Self::On | Self::Off => None,
        }
    }
}

impl FromStr for ThinkingArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" | "0" => Ok(Self::Off),
            _ => text
                .parse()
                .map(Self::Limited)
                .map_err(|_| "must be on, off, or a number of tokens".to_owned()),
        }
    }
}

impl Display for ThinkingArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Off => f.write_str("off"),
            Self::Limited(tokens) => write!(f, "{tokens}"),
        }
    }
}

impl Serialize for ThinkingArg {
    /// Writes the value of the flag, which saved chats have.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_on_off_or_a_number_of_tokens() {
        for (text, expected) in [
            ("on", ThinkingArg::On),
            ("off", ThinkingArg::Off),
            ("0", ThinkingArg::Off),
            ("512", ThinkingArg::Limited(512)),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string().parse(), Ok(expected), "it is read as it is written");
        }
        for text in ["", "On", "-1", "high", "1.5"] {
            let error = text.parse::<ThinkingArg>().unwrap_err();
            assert_eq!(error, "must be on, off, or a number of tokens", "{text}");
        }
    }
}
