//! Settings of a loaded model.

use std::fmt;
use std::str::FromStr;

use wf_core::ActivationCodes;
use wf_kernels::KvDtype;

/// Settings of a loaded model.
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions {
    /// Data type of the KV cache.
    pub kv: KvDtype,
    /// Number of pages in the KV cache.
    pub pages: usize,
    /// Maximum number of tokens of a step.
    pub max_batch_tokens: usize,
    /// Computation of logits from hidden states.
    pub head: HeadMode,
    /// Layers in which the zeros of squared ReLU are skipped.
    pub sparse: SparseMode,
    /// Maximum number of tokens of a sequence; the model's own limit if absent. Rotary embeddings that
    /// depend on the length of a sequence are computed for this one.
    pub context_len: Option<usize>,
    /// Codes of the inputs of ternary products; those of the network if absent.
    pub activations: Option<ActivationCodes>,
}

/// Computation of logits from hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadMode {
    /// `Scan4` for tables larger than the CPU caches, otherwise `Full`.
    #[default]
    Auto,
    /// Reads every row of the table.
    Full,
    /// Finds the best tokens by reading an int8 copy and the rows that could be among them: half the
    /// bytes of a 16-bit table, for half of its memory. The same tokens as `Full`, by proof.
    Scan,
    /// Like `Scan`, reading another copy of four bits first: a quarter of the bytes, for three quarters of
    /// the memory. The same tokens with near certainty, for every table.
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
    const NAMES: [&str; 6] = ["auto", "full", "scan", "scan4", "int8", "check"];
}

impl fmt::Display for HeadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for HeadMode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Ok(Self::ALL[index_of("head", name, &Self::NAMES)?])
    }
}

/// Layers in which zeros are skipped. No mode changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SparseMode {
    /// Layers where a short probe finds enough zeros, in models that are not tiny.
    #[default]
    Auto,
    /// Every layer.
    On,
    /// No layer.
    Off,
}

impl SparseMode {
    const NAMES: [&str; 3] = ["auto", "on", "off"];
}

impl fmt::Display for SparseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for SparseMode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Ok([Self::Auto, Self::On, Self::Off][index_of("sparse", name, &Self::NAMES)?])
    }
}

/// Error for a string that names no [`HeadMode`] or no [`SparseMode`].
#[derive(Debug, thiserror::Error)]
#[error("unknown {of} mode {name:?}: must be {allowed}")]
pub struct UnknownMode {
    of: &'static str,
    name: String,
    allowed: String,
}

fn index_of(of: &'static str, name: &str, names: &[&str]) -> Result<usize, UnknownMode> {
    names.iter().position(|known| *known == name).ok_or_else(|| {
        let [others @ .., last] = names else { unreachable!("there are modes") };
        let allowed = format!("{} or {last}", others.join(", "));
        UnknownMode { of, name: name.to_owned(), allowed }
    })
}
