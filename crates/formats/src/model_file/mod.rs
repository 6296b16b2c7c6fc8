//! A model in any supported format.

mod chunks;
mod data;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use wf_core::{Network, Scales};

use crate::checksum::hex;
use crate::companions::directory_of;
use crate::config::ModelInfo;
use crate::encoding::decode_floats;
use crate::error::Error;
use crate::families::mtp;
use crate::map::{SourceFile, name_of};
use crate::names::TensorName;
use crate::parts::{FileSummary, FormatSummary, OpenOptions, Parts};
use crate::tensor::{Encoding, TensorInfo};
use crate::text::{GenerationDefaults, SpecialTokenTexts, TokenizerSource};
use crate::{gguf, hugging_face, sglbitnt, size, wf};

pub use chunks::TensorChunks;
pub use data::TensorData;

use data::Scaling;

/// A model file that was opened and checked: every tensor of the network exists, has the right shape,
/// and lies inside its file.
#[derive(Debug)]
pub struct ModelFile {
    parts: Parts,
    slots: HashMap<TensorName, Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Index among all tensors.
    at: usize,
    /// Facts that take a pass over the whole tensor, computed on first use.
    scaling: OnceLock<Scaling>,
}

impl ModelFile {
    /// Opens a GGUF file, an SGLBITNT `.bin`, a `.wf`, a `.safetensors` with a `config.json` beside it,
    /// or a Hugging Face directory.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        if path.is_dir() {
            return Self::new(hugging_face::open_directory(path, options)?);
        }
        let source = SourceFile::map(path)?;
        let is_safetensors = path.extension().is_some_and(|extension| extension == "safetensors");
        Self::new(match source.bytes() {
            _ if is_safetensors => {
                hugging_face::open_files(directory_of(path), vec![source], options)?
            }
            bytes if bytes.starts_with(gguf::MAGIC) => gguf::open(source, options)?,
            bytes if bytes.starts_with(sglbitnt::MAGIC) => sglbitnt::open(path, source, options)?,
            bytes if bytes.starts_with(wf::MAGIC) => wf::open(source, options)?,
            _ => {
                let what = "not a model file: must be GGUF, SGLBITNT, .wf or .safetensors";
                return Err(Error::unsupported(&source.name, what));
            }
        })
    }

    /// Opens a GGUF file that is in memory.
    pub fn from_bytes(
        name: &str,
        bytes: &'static [u8],
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        Self::new(gguf::open(SourceFile::built_in(name, bytes), options)?)
    }

    fn new(mut parts: Parts) -> Result<Self, Error> {
        if let Some(what) = mtp::misfit(&parts.config.network, &parts.stored.tensors) {
            parts.config.network.mtp = None;
            parts.summary.decisions.push(what);
        }
        parts.stored = parts.stored.fit(&parts.files, &parts.config.network)?;
        parts.summary.files = parts
            .files
            .iter()
            .map(|file| FileSummary {
                path: file.name.clone(),
                size_bytes: size::widen(file.bytes().len()),
            })
            .collect();
        let tensors = parts.stored.tensors.iter().enumerate();
        let slots =
            tensors.map(|(at, t)| (t.name, Slot { at, scaling: OnceLock::new() })).collect();
        Ok(Self { parts, slots })
    }

    /// Returns the sampling parameters that the model recommends.
    pub fn generation_defaults(&self) -> GenerationDefaults {
        self.parts.text.generation
    }

    /// Returns the name of the first file.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.parts.files, 0)
    }

    /// The recipe of the network.
    pub fn network(&self) -> &Network {
        &self.parts.config.network
    }

    /// Facts about the model that are not part of its network.
    pub fn info(&self) -> &ModelInfo {
        &self.parts.config.info
    }

    /// Returns every tensor of the network, in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.parts.stored.tensors
    }

    /// Returns the names of tensors that the network does not use.
    pub fn extra_tensors(&self) -> &[String] {
        &self.parts.stored.extra
    }

    /// Returns a tensor of the network.
    pub fn tensor(&self, name: TensorName) -> Option<&TensorInfo> {
        self.parts.stored.tensors.get(self.slots.get(&name)?.at)
    }

    /// Returns the source of the tokenizer.
    pub fn tokenizer(&self) -> &TokenizerSource {
        &self.parts.text.tokenizer
    }

    /// Returns the chat template of the model, in Jinja.
    pub fn chat_template(&self) -> Option<&str> {
        self.parts.text.chat_template.as_deref()
    }

    /// Returns the texts of the special tokens that templates use.
    pub fn special_token_texts(&self) -> &SpecialTokenTexts {
        &self.parts.text.special_tokens
    }

    /// Returns a summary of the files.
    pub fn format(&self) -> &FormatSummary {
        &self.parts.summary
    }

    /// Returns the mapped bytes of a tensor; empty for a tensor of another model.
    pub fn bytes(&self, t: &TensorInfo) -> &[u8] {
        let bytes = self.parts.files.get(t.file).map(SourceFile::bytes).unwrap_or_default();
        size::slice(bytes, t.offset, t.size).unwrap_or_default()
    }

    /// Reads a tensor into memory. Unlike [`ModelFile::bytes`], this fails with an error, not a signal,
    /// if the file was truncated since it was opened.
    pub fn read<'a>(&'a self, t: &'a TensorInfo) -> Result<TensorData<'a>, Error> {
        let len = usize::try_from(t.size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(self.bytes(t).len())];
        self.read_into(t, 0, &mut bytes)?;
        if let Some(checksum) = t.checksum {
            let found = checksum.algorithm.of(&bytes);
            checksum.check(found).map_err(|what| self.fault(t, what))?;
        }
        Ok(TensorData { model: self, info: t, bytes: Cow::Owned(bytes) })
    }

    /// Returns a reader of the bytes of a tensor, chunk by chunk.
    pub fn chunks<'a>(&'a self, t: &'a TensorInfo) -> TensorChunks<'a> {
        TensorChunks::new(self, t)
    }

    /// Verifies the checksum of a tensor, if the file has one.
    pub fn check(&self, t: &TensorInfo) -> Result<(), Error> {
        self.chunks(t).finish()
    }

    /// Returns the number of bytes of quad lines that kernels can use as stored, or `None` if they
    /// cannot.
    pub fn quad_lines(&self, t: &TensorInfo) -> Result<Option<usize>, Error> {
        let Encoding::Ternary(encoding) = t.encoding else { return Ok(None) };
        let Some(len) = encoding.quad_lines_len(t.rows, t.cols) else { return Ok(None) };
        // Under a scale of 0, trits differ from their codes.
        Ok(self.mapped(t).has_plain_trits()?.then_some(len))
    }

    /// Reads rows of a float tensor into `bytes` and decodes them into `values`. Like
    /// [`ModelFile::read`], but for these rows only.
    pub fn read_floats(
        &self,
        t: &TensorInfo,
        rows: Range<usize>,
        bytes: &mut Vec<u8>,
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let Some(float) = t.encoding.float() else {
            return Err(self.fault(t, format!("is {}, must be floats", t.encoding)));
        };
        let inside = rows.start <= rows.end && rows.end <= t.rows;
        let row_size = float.row_size(t.cols).map_err(|e| self.fault(t, e))?;
        let first = size::product(&[row_size, size::widen(rows.start)]);
        let len = size::product(&[row_size, size::widen(rows.len())]);
        let len = len.and_then(|len| usize::try_from(len).ok()).filter(|_| inside);
        let (Some(first), Some(len)) = (first, len) else {
            return Err(
                self.fault(t, format!("rows {rows:?} are out of range: there are {}", t.rows))
            );
        };
        bytes.resize(len, 0);
        self.read_into(t, first, bytes)?;
        values.resize(rows.len().saturating_mul(t.cols), 0.0);
        decode_floats(float, bytes, values).map_err(|e| self.fault(t, e))?;
        t.change.apply(values);
        Ok(())
    }

    fn read_into(&self, t: &TensorInfo, start: u64, out: &mut [u8]) -> Result<(), Error> {
        let Some(file) = self.parts.files.get(t.file) else { return Ok(()) };
        let offset = t.offset.saturating_add(start);
        file.read_at(offset, out).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => {
                let len = file.bytes().len();
                self.fault(t, format!("file was truncated: it had {len} bytes when opened"))
            }
            _ => Error::io(Path::new(&file.name), e),
        })
    }

    /// Fails if one of the files was modified since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        self.parts.files.iter().try_for_each(SourceFile::check_unchanged)
    }

    /// Releases the memory of mapped pages; they are read again when needed.
    pub fn release(&self) {
        self.parts.files.iter().for_each(SourceFile::release);
    }

    /// Computes the SHA-256 of the model's file, as `sha256sum` does. For several files it is the
    /// SHA-256 of their digests, one per line. Reads every byte.
    pub fn digest(&self) -> String {
        let of_each = self.parts.files.iter().map(|file| hex(&Sha256::digest(file.bytes())));
        match of_each.collect::<Vec<_>>().as_slice() {
            [one] => one.clone(),
            several => {
                let lines: String = several.iter().flat_map(|one| [one, "\n"]).collect();
                hex(&Sha256::digest(lines.as_bytes()))
            }
        }
    }

    /// Decodes rows of a float tensor into `out`, `cols` values each.
    pub fn floats(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [f32]) -> Result<(), Error> {
        self.mapped(t).floats(rows, out)
    }

    /// Decodes rows of a ternary tensor into `out` as −1, 0 and 1, `cols` values each.
    pub fn trits(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [i8]) -> Result<(), Error> {
        self.mapped(t).trits(rows, out)
    }

    /// Returns the scales of a ternary tensor: finite, not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self, t: &TensorInfo) -> Result<Scales, Error> {
        self.mapped(t).scales()
    }

    fn mapped<'a>(&'a self, t: &'a TensorInfo) -> TensorData<'a> {
        TensorData { model: self, info: t, bytes: Cow::Borrowed(self.bytes(t)) }
    }

    /// Returns the slot that caches the facts about a whole ternary tensor.
    fn scaling_slot(&self, t: &TensorInfo) -> Option<&OnceLock<Scaling>> {
        self.slots.get(&t.name).filter(|_| t.encoding.is_ternary()).map(|slot| &slot.scaling)
    }

    pub(crate) fn fault(&self, t: &TensorInfo, what: impl std::fmt::Display) -> Error {
        Error::tensor(name_of(&self.parts.files, t.file), &t.source_name, t.offset, what)
    }
}
