//! Arguments become a model.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};
use wf_engine::{BlockChoice, ModelSource, OpenedModel, RunOptions, open_with_draft};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{CpuList, HeadMode, SparseMode};

use crate::args::{ComputeArgs, FileArgs};
use crate::{absent, demo, hub, loading, memory};

/// The model a command names, ready to be run, or the demo. A model on the hub is fetched.
pub(crate) fn source(model: Option<&Path>) -> Result<ModelSource> {
    Ok(match model {
        None => demo::SOURCE,
        Some(model) => ModelSource::Path(hub::ready(model)?),
    })
}

/// The same as it was published, for commands that look at files.
pub(crate) fn original(model: Option<&Path>) -> Result<ModelSource> {
    Ok(match model {
        None => demo::SOURCE,
        Some(model) => ModelSource::Path(hub::original(model)?),
    })
}

/// Opens a model's file. Where there is none, it is said what may have been meant.
pub(crate) fn file(source: &ModelSource, options: &OpenOptions) -> Result<ModelFile> {
    if let ModelSource::Path(path) = source {
        // What cannot even be asked for gets its message when it is opened.
        ensure!(!matches!(path.try_exists(), Ok(false)), "{}", absent::explain(path));
    }
    Ok(source.open(options)?)
}

/// The model a command names, and a smaller one that guesses for it if one is named, loaded and ready
/// to answer.
pub(crate) fn model(
    model: Option<&Path>,
    draft: Option<&Path>,
    options: &RunOptions,
) -> Result<OpenedModel> {
    let main = source(model)?;
    let main_file = file(&main, &options.open)?;
    let draft = draft.map(|draft| source(Some(draft))).transpose()?;
    let draft_file = draft.as_ref().map(|draft| file(draft, &options.open)).transpose()?;
    memory::check(&main_file, draft_file.as_ref(), options)?;
    let mut bar = loading::Bar::new();
    let show = &mut |loading| bar.show(loading);
    let opened = open_with_draft(&main, draft.as_ref(), options, show);
    bar.finish();
    Ok(opened?)
}

impl FileArgs {
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            i2s_order: self.i2s_order,
            activation: self.activation,
            ..OpenOptions::default()
        }
    }
}

impl ComputeArgs {
    pub(crate) fn options(&self, file: &FileArgs) -> RunOptions {
        RunOptions {
            open: file.options(),
            blocks: BlockChoice {
                mask_token: file.mask_token,
                token_shift: file.rows_score.as_deref().map(|token| token == "next"),
                causal_context: file.block_context.as_deref().map(|kind| kind == "causal"),
            },
            isa: self.isa,
            threads: self.threads.unwrap_or_else(|| match &self.cpus {
                Some(cpus) => cpus.cpus().len(),
                None => cores(),
            }),
            cpus: self.cpus.clone(),
            layout: self.layout,
            kv: self.kv,
            context_len: self.context,
            max_batch_tokens: self.chunk,
            head: HeadMode::Full,
            sparse: SparseMode::Off,
            ..RunOptions::default()
        }
    }
}

/// Cores this process may use, also where a container gives it less than their whole time. Two
/// threads on one core gain nothing: a product uses all of its arithmetic.
pub(crate) fn cores() -> usize {
    let at_once = available_parallelism().map_or(1, usize::from);
    CpuList::allowed().map_or(at_once, |cpus| cpus.cores().min(at_once))
}

/// The most bytes of a text. A device that never ends must not take all memory.
const MAX_TEXT_LEN: u64 = 256 << 20;

/// The most bytes of a tokenizer.json; Llama 3's has 9 MB.
const MAX_TOKENIZER_LEN: u64 = 64 << 20;

/// A text argument, where `-` is standard input.
pub(crate) fn text_or_stdin(text: &OsStr) -> Result<String> {
    if text == "-" {
        return read_stdin();
    }
    utf8(text.as_encoded_bytes().to_vec()).context("the text on the command line")
}

/// A text file, where `-` is standard input.
pub(crate) fn read_text_file(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    let reading = || format!("reading {}", path.display());
    let read = || utf8(read_at_most(MAX_TEXT_LEN, File::open(path)?)?);
    read().with_context(reading)
}

/// The bytes of a tokenizer.json.
pub(crate) fn read_tokenizer_file(path: &Path) -> Result<Vec<u8>> {
    let read = || read_at_most(MAX_TOKENIZER_LEN, File::open(path)?);
    read().with_context(|| format!("reading {}", path.display()))
}

fn read_stdin() -> Result<String> {
    let read = || utf8(read_at_most(MAX_TEXT_LEN, std::io::stdin().lock())?);
    read().context("reading standard input")
}

fn read_at_most(limit: u64, from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells what is too long from what just fits.
    from.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "longer than {} MiB, the most allowed", limit >> 20);
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("byte {at} is not UTF-8: the text must be UTF-8")
    })
}
