//! Input and output of the readers of formats.

use std::fmt;

use wf_core::Activation;

use crate::config::Config;
use crate::encoding::I2sOrder;
use crate::map::SourceFile;
use crate::tensor::Stored;
use crate::text::ModelText;

/// Settings that a file leaves open.
#[derive(Debug, Default, Clone)]
pub struct OpenOptions {
    /// Order of I2_S trits [default: groups of 128, as in published files].
    pub i2s_order: Option<I2sOrder>,
    /// Activation of the feed-forward blocks, overriding the file.
    pub activation: Option<Activation>,
    /// Number of columns of master weights that share a scale [default: one scale per tensor].
    pub group_len: Option<usize>,
    /// Rounds the weights of a model that was not trained for it. Its output is nonsense: this is for
    /// measuring speed.
    pub naive: bool,
}

/// Result of the reader of a format.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) config: Config,
    pub(crate) stored: Stored,
    pub(crate) text: ModelText,
    pub(crate) summary: FormatSummary,
}

/// Files of a model and the decisions made in reading them.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatSummary {
    /// Kind of container.
    pub kind: FormatKind,
    /// Version of the container format.
    pub version: Option<u32>,
    /// Files that hold tensors.
    pub files: Vec<FileSummary>,
    /// Digest of the model, if the file stores one.
    pub digest: Option<String>,
    /// Every choice that the files leave open, and its reason.
    pub decisions: Vec<String>,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Path, or name of a built-in file.
    pub path: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// Kinds of container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatKind {
    /// One GGUF file.
    Gguf,
    /// Hugging Face: `config.json` and one or more `.safetensors`.
    HuggingFace,
    /// sgl-kernel's `.bin`.
    Sglbitnt,
    /// WrinkleFree `.wf`.
    Wf,
}

impl FormatKind {
    /// Returns the extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::HuggingFace => "safetensors",
            Self::Sglbitnt => "bin",
            Self::Wf => "wf",
        }
    }
}

impl fmt::Display for FormatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gguf => "GGUF",
            Self::HuggingFace => "Hugging Face safetensors",
            Self::Sglbitnt => "SGLBITNT",
            Self::Wf => "WrinkleFree",
        })
    }
}

impl FormatSummary {
    /// Creates a summary without the files, which [`crate::ModelFile`] adds.
    pub(crate) fn new(kind: FormatKind, version: Option<u32>, decisions: Vec<String>) -> Self {
        Self { kind, version, files: Vec::new(), digest: None, decisions }
    }

    /// Total size of all files in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }
}
