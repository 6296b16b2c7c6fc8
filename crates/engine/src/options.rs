//! Options of an engine.

use std::path::PathBuf;
use std::{fs, io};

use wf_model::BlockDiffusion;

/// Options of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Maximum number of sequences of a step; others wait.
    pub max_running: usize,
    /// Maximum number of waiting requests; more are rejected.
    pub max_waiting: usize,
    /// Maximum number of tokens of prompt and completion; limited by the model and its pages if absent.
    pub context_len: Option<usize>,
    /// Block layout, if not the one of the model's file.
    pub blocks: Option<BlockDiffusion>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_running: 16, max_waiting: 512, context_len: None, blocks: None }
    }
}

/// Options of the prefix cache on disk.
#[derive(Clone, Debug)]
pub struct DiskCacheOptions {
    /// Directory of the pages.
    pub dir: PathBuf,
    /// Maximum size of all pages in bytes.
    pub max_bytes: u64,
    /// Reports a fault, such as a full disk, when it begins and when it ends.
    pub report: fn(&str),
}

impl DiskCacheOptions {
    /// Creates the directory, if it does not exist, for its owner only: pages tell about prompts.
    pub fn create_dir(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir)
    }
}
