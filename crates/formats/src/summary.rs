//! What `wf inspect` shows of a model's files.

use std::fmt;

use crate::model_file::SourceFile;
use crate::size;

/// The kind of files, what they are, and every guess that was made about them.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatSummary {
    /// Kind of container.
    pub kind: FormatKind,
    /// Version of the container, where it has one.
    pub version: Option<u32>,
    /// Every file that holds tensors.
    pub files: Vec<FileSummary>,
    /// The name of exactly this model, where the file has one.
    pub digest: Option<String>,
    /// What was decided where the files do not say, and why.
    pub decisions: Vec<String>,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Its path, or its name if it is built in.
    pub path: String,
    /// Its length.
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
    /// Our own `.wf`.
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

    /// Bytes of all files together.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }
}
