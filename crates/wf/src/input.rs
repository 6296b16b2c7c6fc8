//! Reads the texts that arguments name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Maximum size of a text: an endless device must not fill the memory.
const MAX_TEXT_LEN: u64 = 256 << 20;

/// Maximum size of a tokenizer.json; that of Llama 3 has 9 MB.
const MAX_TOKENIZER_LEN: u64 = 64 << 20;

/// Returns a text argument; `-` reads standard input.
pub(crate) fn text_or_stdin(text: &OsStr) -> Result<String> {
    if text == "-" {
        return read_stdin();
    }
    utf8(text.as_encoded_bytes().to_vec()).context("text on the command line")
}

/// Reads a text file; `-` reads standard input.
pub(crate) fn read_text_file(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    let reading = || format!("reading {}", path.display());
    let read = || utf8(read_at_most(MAX_TEXT_LEN, File::open(path)?)?);
    read().with_context(reading)
}

/// Reads the file of `--api-key-file`: one key per line, and comments that start with `#`.
pub(crate) fn read_keys(path: &Path) -> Result<Vec<String>> {
    let text = read_text_file(path).context("--api-key-file")?;
    let lines = text.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(keys.map(|line| wf_server::Key::split(line).0.to_owned()).collect())
}

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
    // One more byte than allowed distinguishes an input that is too large.
    from.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "larger than the limit of {} MiB", limit >> 20);
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("invalid UTF-8 at byte {at}: the text must be UTF-8")
    })
}
