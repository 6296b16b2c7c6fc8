//! Arguments become a model.

use std::io::Read;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use wf_engine::{ModelSource, RunOptions};
use wf_formats::OpenOptions;

use crate::args::{ComputeArgs, FileArgs};
use crate::demo;

/// The model a command names, or the demo.
pub(crate) fn source(model: Option<&Path>) -> ModelSource {
    model.map_or(demo::SOURCE, ModelSource::from)
}

impl FileArgs {
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions { i2s_order: self.i2s_order, activation: self.activation }
    }
}

impl ComputeArgs {
    pub(crate) fn options(&self, file: &FileArgs) -> RunOptions {
        RunOptions {
            open: file.options(),
            isa: self.isa,
            threads: self.threads.unwrap_or_else(cores),
            kv: self.kv,
            context_len: self.context,
            max_batch_tokens: self.chunk,
        }
    }
}

/// Cores this process may use.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// A text argument, where `-` is standard input.
pub(crate) fn text_or_stdin(text: &str) -> Result<String> {
    if text == "-" { read_stdin() } else { Ok(text.to_owned()) }
}

/// A text file, where `-` is standard input.
pub(crate) fn read_text_file(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("reading {name}"))?;
    utf8(bytes).with_context(|| format!("reading {name}"))
}

fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("reading standard input")?;
    utf8(bytes).context("reading standard input")
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("byte {at} is not UTF-8: the text must be UTF-8")
    })
}
