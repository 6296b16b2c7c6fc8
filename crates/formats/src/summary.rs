//! Summary of the files of a model, as `wf inspect` shows it.

use std::fmt;

use crate::model_file::SourceFile;
use crate::size;

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
    pub(crate) fn new(
        kind: FormatKind,
        version: Option<u32>,
        files: &[SourceFile],
        decisions: Vec<String>,
    ) -> Self {
        let summary = |file: &SourceFile| {
            let size_bytes = size::widen(file.bytes.as_slice().len());
            FileSummary { path: file.name.clone(), size_bytes }
        };
        let files = files.iter().map(summary).collect();
        Self { kind, version, files, digest: None, decisions }
    }

    /// Total size of all files in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }
}
