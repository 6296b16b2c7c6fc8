//! Positions that attention reads.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Network;

/// Positions that attention reads. All modes but `Dense` are approximations: they change results, never
/// by anything but the sequence's own tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionMode {
    /// Every position that the mask allows.
    #[default]
    Dense,
    /// This many pages of each K/V head: those with the highest upper bound on the product of query and key,
    /// and the newest.
    TopK(usize),
    /// All pages but some that together hold at most this share of the softmax mass, by proof.
    Threshold(f32),
    /// As many pages of each K/V head as hold this share of the mass that the upper bounds allow.
    Dynamic(f32),
    /// The newest positions and the first, however long the sequence is.
    Window(Window),
}

/// Positions that attention reads of a sequence without end: the newest `len` and the first `sinks`, as
/// StreamingLLM does. Positions of rotary embeddings are those within this cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of newest positions.
    pub len: usize,
    /// Number of first positions.
    pub sinks: usize,
}

impl Window {
    /// Returns the number of positions that are read at most.
    pub fn positions(self) -> usize {
        self.len + self.sinks
    }

    /// Returns the first of the newest positions of those below `visible`; 0 as long as all are read.
    pub fn first(self, visible: usize) -> usize {
        if visible > self.positions() { visible - self.len } else { 0 }
    }

    /// Returns the position among those that are read of the token at `position`, which sees all below
    /// `visible`.
    pub fn place(self, position: usize, visible: usize) -> usize {
        position - visible.saturating_sub(self.positions())
    }

    /// Returns the number of positions that the token after `len` others does not see.
    pub fn out_of_sight(self, len: usize) -> usize {
        (len + 1).saturating_sub(self.positions())
    }
}

impl AttentionMode {
    /// Allowed numbers of newest positions of `window`.
    pub const WINDOW: RangeInclusive<usize> = 32..=Self::MAX_LEN;
    /// Allowed numbers of first positions of `window`.
    pub const SINKS: RangeInclusive<usize> = 0..=1024;
    /// Maximum number of tokens of a sequence that a window slides over.
    pub const MAX_LEN: usize = 1 << 20;
    /// Number of first positions of `window` if none is given, as in the published method.
    const USUAL_SINKS: usize = 4;

    /// Allowed numbers of pages of `topk`: the newest two and at least one other.
    pub const PAGES: RangeInclusive<usize> = 3..=1 << 20;
    /// Allowed shares of the softmax mass that `threshold` may skip.
    pub const SKIPPED: RangeInclusive<f32> = 1e-6..=0.5;
    /// Allowed shares of the bounds' mass that `dynamic` reads.
    pub const READ: RangeInclusive<f32> = 0.01..=1.0;

    /// Returns `true` if the mode selects pages by the bounds of their keys.
    pub fn selects_pages(self) -> bool {
        matches!(self, Self::TopK(_) | Self::Threshold(_) | Self::Dynamic(_))
    }

    /// Returns the window, if the mode has one.
    pub fn window(self) -> Option<Window> {
        match self {
            Self::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Returns the reason why a network with a context of `context_len` tokens cannot use the mode.
    ///
    /// # Errors
    ///
    /// If the mode is a window and layers have windows of their own, or it is longer than the context.
    pub fn check(self, network: &Network, context_len: usize) -> Result<(), String> {
        let Some(window) = self.window() else { return Ok(()) };
        if network.attentions().any(|attention| attention.window.is_some()) {
            return Err(format!(
                "--attention {self} cannot be used: layers of the model have windows of their own, for which \
                 it was trained"
            ));
        }
        if network.attentions().next().is_none() {
            return Err(format!("--attention {self} cannot be used: no layer has attention"));
        }
        if window.positions() > context_len {
            return Err(format!(
                "--attention {self} reads {} positions: window and sinks must be at most the context of \
                 {context_len} tokens together",
                window.positions()
            ));
        }
        Ok(())
    }

    /// Returns the maximum number of tokens of a sequence in a context of `context_len`.
    pub fn max_len(self, context_len: usize) -> usize {
        if self.window().is_some() { context_len.max(Self::MAX_LEN) } else { context_len }
    }
}

impl fmt::Display for AttentionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense => f.pad("dense"),
            Self::TopK(pages) => write!(f, "topk={pages}"),
            Self::Threshold(share) => write!(f, "threshold={share}"),
            Self::Dynamic(share) => write!(f, "dynamic={share}"),
            Self::Window(Window { len, sinks }) => write!(f, "window={len},sinks={sinks}"),
        }
    }
}

impl FromStr for AttentionMode {
    type Err = InvalidAttentionMode;

    fn from_str(text: &str) -> Result<Self, InvalidAttentionMode> {
        let (name, value) = text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v)));
        let value = |example: &str| {
            value.ok_or_else(|| InvalidAttentionMode::NoValue {
                name: name.to_owned(),
                example: example.to_owned(),
            })
        };
        match name {
            "dense" if text == "dense" => Ok(Self::Dense),
            "topk" => Ok(Self::TopK(within(name, value("topk=64")?, Self::PAGES)?)),
            "threshold" => {
                Ok(Self::Threshold(within(name, value("threshold=0.01")?, Self::SKIPPED)?))
            }
            "dynamic" => Ok(Self::Dynamic(within(name, value("dynamic=0.9")?, Self::READ)?)),
            "window" => window(value("window=2048,sinks=4")?),
            _ => Err(InvalidAttentionMode::Unknown(text.to_owned())),
        }
    }
}

/// Parses the value of a window: its length, or `LEN,sinks=SINKS`.
fn window(text: &str) -> Result<AttentionMode, InvalidAttentionMode> {
    let (len, rest) = text.split_once(',').map_or((text, None), |(len, rest)| (len, Some(rest)));
    let sinks = match rest.map(|rest| rest.strip_prefix("sinks=").ok_or(rest)) {
        None => AttentionMode::USUAL_SINKS,
        Some(Ok(sinks)) => within("sinks", sinks, AttentionMode::SINKS)?,
        Some(Err(rest)) => return Err(InvalidAttentionMode::NoSinks(rest.to_owned())),
    };
    let len = within("window", len, AttentionMode::WINDOW)?;
    Ok(AttentionMode::Window(Window { len, sinks }))
}

fn within<T: FromStr + PartialOrd + fmt::Display>(
    name: &str,
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, InvalidAttentionMode> {
    match text.parse() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(InvalidAttentionMode::OutOfRange {
            name: name.to_owned(),
            text: text.to_owned(),
            range: format!("{} to {}", range.start(), range.end()),
        }),
    }
}

/// Error for a string that is no [`AttentionMode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAttentionMode {
    /// No mode has this name.
    Unknown(String),
    /// A mode that needs a value has none.
    NoValue {
        /// Name of the mode.
        name: String,
        /// The mode with a value.
        example: String,
    },
    /// This follows the length of a window in place of its sinks.
    NoSinks(String),
    /// A value is no number, or not within the range.
    OutOfRange {
        /// Name of the value.
        name: String,
        /// The value found.
        text: String,
        /// The allowed values.
        range: String,
    },
}

impl fmt::Display for InvalidAttentionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(
                f,
                "unknown attention mode {text:?}: must be dense, topk=K, threshold=E, \
                 dynamic=P or window=N,sinks=M"
            ),
            Self::NoValue { name, example } => {
                write!(f, "attention mode {name} needs a value, for example {example}")
            }
            Self::NoSinks(text) => write!(
                f,
                "the length of a window is followed by {text:?}: must be sinks=M, for example \
                 window=2048,sinks=4"
            ),
            Self::OutOfRange { name, text, range } => {
                write!(f, "{name} is {text:?}: must be a number from {range}")
            }
        }
    }
}

impl std::error::Error for InvalidAttentionMode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_parses_back() {
        for mode in [
            AttentionMode::Dense,
            AttentionMode::TopK(64),
            AttentionMode::Threshold(0.001),
            AttentionMode::Dynamic(0.95),
            AttentionMode::Window(Window { len: 2048, sinks: 0 }),
        ] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn errors_name_the_value_and_what_is_allowed() {
        let error = |text: &str| text.parse::<AttentionMode>().unwrap_err().to_string();
        assert_eq!(error("topk=2"), "topk is \"2\": must be a number from 3 to 1048576");
        assert_eq!(error("topk=all"), "topk is \"all\": must be a number from 3 to 1048576");
        assert_eq!(
            error("threshold=0.9"),
            "threshold is \"0.9\": must be a number from 0.000001 to 0.5"
        );
        assert_eq!(error("dynamic=NaN"), "dynamic is \"NaN\": must be a number from 0.01 to 1");
        assert_eq!(error("window=31"), "window is \"31\": must be a number from 32 to 1048576");
        assert_eq!(error("window=64,sinks=-1"), "sinks is \"-1\": must be a number from 0 to 1024");
        assert_eq!(
            error("window=64,4"),
            "the length of a window is followed by \"4\": must be sinks=M, for example \
             window=2048,sinks=4"
        );
        assert_eq!(
            error("window"),
            "attention mode window needs a value, for example window=2048,sinks=4"
        );
        assert_eq!(error("topk"), "attention mode topk needs a value, for example topk=64");
        for unknown in ["sparse", "dense=1", ""] {
            assert!(error(unknown).starts_with("unknown attention mode"), "{unknown}");
        }
    }

    #[test]
    fn a_window_reads_all_until_it_slides() {
        let window = Window { len: 64, sinks: 4 };
        assert_eq!("window=64".parse(), Ok(AttentionMode::Window(window)));
        assert_eq!((window.first(68), window.first(69), window.first(1000)), (0, 5, 936));
        assert_eq!(
            (window.place(67, 68), window.place(68, 69), window.place(999, 1000)),
            (67, 67, 67)
        );
        assert_eq!(window.place(990, 1000), 58, "a token of a block that sees those after it");
        assert_eq!((window.out_of_sight(67), window.out_of_sight(68)), (0, 1));
        assert_eq!(AttentionMode::Window(window).max_len(2048), 1 << 20);
        assert_eq!(AttentionMode::TopK(8).max_len(2048), 2048);
    }
}
