//! A model in any supported format, opened and checked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::checksum::Checksum;
use crate::config::{Activation, ModelConfig};
use crate::encoding::{I2sOrder, TernaryEncoding, TritScales, decode_floats};
use crate::error::Error;
use crate::generation::GenerationDefaults;
use crate::map::FileBytes;
use crate::names::TensorName;
use crate::pieces::Pieces;
use crate::scaling::Scaling;
use crate::summary::FormatSummary;
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::tensor_data::TensorData;
use crate::vocabulary::{ModelText, SpecialTokenTexts, TokenizerSource};
use crate::{gguf, hugging_face, pieces, sglbitnt, size, wf};

/// What a file cannot tell, told by the user.
#[derive(Debug, Default, Clone)]
pub struct OpenOptions {
    /// Order of I2_S trits; published files have groups of 128.
    pub i2s_order: Option<I2sOrder>,
    /// The function on the gate.
    pub activation: Option<Activation>,
    /// Columns of master weights that share a scale; the whole tensor if there is no number.
    pub group_len: Option<usize>,
    /// Rounds the weights of a model that was not trained for it. Such a model writes nonsense: it is
    /// for measuring speed.
    pub naive: bool,
}

/// One file of a model: its name, for messages, and its bytes.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) bytes: FileBytes,
}

impl SourceFile {
    pub(crate) fn map(path: &Path) -> Result<Self, Error> {
        Ok(Self { name: path.display().to_string(), bytes: FileBytes::map(path)? })
    }
}

/// The name of one of a model's files, for messages.
pub(crate) fn name_of(files: &[SourceFile], at: usize) -> &str {
    files.get(at).map(|file| file.name.as_str()).unwrap_or_default()
}

/// What the reader of each format hands over.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) config: ModelConfig,
    /// Checked by [`Stored::fit`].
    pub(crate) stored: Stored,
    pub(crate) text: ModelText,
    pub(crate) summary: FormatSummary,
}

/// A model in any supported format, opened and checked: every tensor the network needs is there, has
/// the right shape, and lies inside its file.
#[derive(Debug)]
pub struct ModelFile {
    parts: Parts,
    slots: HashMap<TensorName, Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Place among all tensors.
    at: usize,
    /// What takes a pass over a whole ternary tensor to find, found when first needed.
    scaling: OnceLock<Scaling>,
}

impl ModelFile {
    /// Opens a GGUF file, an SGLBITNT `.bin`, our own `.wf`, a `.safetensors` with its `config.json`
    /// beside it, or a Hugging Face directory.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        if path.is_dir() {
            return hugging_face::open_directory(path, options).map(Self::new);
        }
        let source = SourceFile::map(path)?;
        let is_safetensors = path.extension().is_some_and(|extension| extension == "safetensors");
        if is_safetensors {
            return hugging_face::open_lone_file(path, source, options).map(Self::new);
        }
        let bytes = source.bytes.as_slice();
        if bytes.starts_with(gguf::MAGIC) {
            gguf::open(source, options).map(Self::new)
        } else if bytes.starts_with(sglbitnt::MAGIC) {
            sglbitnt::open(path, source, options).map(Self::new)
        } else if bytes.starts_with(wf::MAGIC) {
            wf::open(source, options).map(Self::new)
        } else {
            let what =
                "no GGUF, SGLBITNT or .wf file by its first bytes, and not named .safetensors";
            Err(Error::unsupported(&source.name, what))
        }
    }

    /// Opens a GGUF file that is already in memory: the built-in model.
    pub fn from_bytes(
        name: &str,
        bytes: &'static [u8],
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let source = SourceFile { name: name.to_owned(), bytes: FileBytes::BuiltIn(bytes) };
        gguf::open(source, options).map(Self::new)
    }

    /// How its makers want its tokens to be drawn.
    pub fn generation_defaults(&self) -> GenerationDefaults {
        self.parts.text.generation
    }

    /// The bytes of its files.
    pub(crate) fn file_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.files.iter().map(|file| file.bytes.as_slice())
    }

    /// The name of the first file, for messages.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.parts.files, 0)
    }

    fn new(parts: Parts) -> Self {
        let tensors = parts.stored.tensors.iter().enumerate();
        let slots =
            tensors.map(|(at, t)| (t.name, Slot { at, scaling: OnceLock::new() })).collect();
        Self { parts, slots }
    }

    /// Sizes and constants of the network.
    pub fn config(&self) -> &ModelConfig {
        &self.parts.config
    }

    /// Every tensor the network uses, in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.parts.stored.tensors
    }

    /// Names in the file that the network does not use.
    pub fn extra_tensors(&self) -> &[String] {
        &self.parts.stored.extra
    }

    /// One tensor of the network.
    pub fn tensor(&self, name: TensorName) -> Option<&TensorInfo> {
        self.parts.stored.tensors.get(self.slots.get(&name)?.at)
    }

    /// Where the tokens come from.
    pub fn tokenizer(&self) -> &TokenizerSource {
        &self.parts.text.tokenizer
    }

    /// The model's own chat template (Jinja).
    pub fn chat_template(&self) -> Option<&str> {
        self.parts.text.chat_template.as_deref()
    }

    /// Texts of the special tokens that templates name.
    pub fn special_token_texts(&self) -> &SpecialTokenTexts {
        &self.parts.text.special_tokens
    }

    /// What the files are, and every guess made about them.
    pub fn format(&self) -> &FormatSummary {
        &self.parts.summary
    }

    /// The bytes of a tensor as they are in the file. Empty if the tensor is of another model.
    pub fn bytes(&self, t: &TensorInfo) -> &[u8] {
        let file = self.parts.files.get(t.file);
        let bytes = file.map(|file| file.bytes.as_slice()).unwrap_or_default();
        size::slice(bytes, t.offset, t.size).unwrap_or_default()
    }

    /// The bytes of a tensor, read into memory. Unlike [`ModelFile::bytes`] this does not fail with a
    /// signal if the file was cut short since it was opened.
    pub fn read<'a>(&'a self, t: &'a TensorInfo) -> Result<TensorData<'a>, Error> {
        let len = usize::try_from(t.size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(self.bytes(t).len())];
        self.read_into(t, 0, &mut bytes)?;
        if let Some(expected) = t.checksum {
            pieces::check(self, t, expected, Checksum::of(&bytes))?;
        }
        Ok(TensorData { model: self, info: t, bytes: Cow::Owned(bytes) })
    }

    /// The bytes of a tensor, to be read piece by piece.
    pub fn pieces<'a>(&'a self, t: &'a TensorInfo) -> Pieces<'a> {
        Pieces::new(self, t)
    }

    /// Reads a tensor, and fails if it is not what was written. Where the file has no checksum, there
    /// is nothing to do.
    pub fn check(&self, t: &TensorInfo) -> Result<(), Error> {
        self.pieces(t).finish()
    }

    /// How many bytes of quad lines a tensor begins with that kernels can take as they are.
    pub fn quad_lines(&self, t: &TensorInfo) -> Result<Option<usize>, Error> {
        let Encoding::Ternary(encoding @ TernaryEncoding::QuadLines(_)) = t.encoding else {
            return Ok(None);
        };
        // Where scales are 0, trits are not what their codes say.
        let is_plain = self.mapped(t).has_plain_trits()?;
        Ok(encoding.trit_bytes(t.rows, t.cols).filter(|_| is_plain))
    }

    /// Reads some rows of a tensor of floats, as they are and decoded. Like [`ModelFile::read`], but
    /// never more at a time than asked for.
    pub fn read_floats(
        &self,
        t: &TensorInfo,
        rows: Range<usize>,
        bytes: &mut Vec<u8>,
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let Some(float) = t.encoding.float() else {
            return Err(self.fault(t, format!("is {}, not floats", t.encoding)));
        };
        let inside = rows.start <= rows.end && rows.end <= t.rows;
        let row_size = float.row_size(t.cols).map_err(|e| self.fault(t, e))?;
        let first = size::product(&[row_size, size::widen(rows.start)]);
        let len = size::product(&[row_size, size::widen(rows.len())]);
        let len = len.and_then(|len| usize::try_from(len).ok()).filter(|_| inside);
        let (Some(first), Some(len)) = (first, len) else {
            return Err(self.fault(t, format!("rows {rows:?} asked of {}", t.rows)));
        };
        bytes.resize(len, 0);
        self.read_into(t, first, bytes)?;
        values.resize(rows.len().saturating_mul(t.cols), 0.0);
        decode_floats(float, bytes, values).map_err(|e| self.fault(t, e))
    }

    /// Fills `out` with the bytes of a tensor from `start` on.
    pub(crate) fn read_into(
        &self,
        t: &TensorInfo,
        start: u64,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let Some(file) = self.parts.files.get(t.file) else { return Ok(()) };
        let offset = t.offset.saturating_add(start);
        file.bytes.read_at(offset, out).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => {
                let len = file.bytes.as_slice().len();
                self.fault(t, format!("the file was cut short: it had {len} bytes when opened"))
            }
            _ => Error::io(Path::new(&file.name), e),
        })
    }

    /// Fails if one of the files was written to, or cut, since it was opened.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        for file in &self.parts.files {
            let changed =
                file.bytes.has_changed().map_err(|e| Error::io(Path::new(&file.name), e))?;
            if changed {
                return Err(Error::unsupported(&file.name, "was written to while it was read"));
            }
        }
        Ok(())
    }

    /// Gives the memory of mapped pages back; they are read from the files again when needed.
    pub fn release(&self) {
        self.parts.files.iter().for_each(|file| file.bytes.release());
    }

    /// Rows of a tensor of floats; `out` has `cols` places for each.
    pub fn floats(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [f32]) -> Result<(), Error> {
        self.mapped(t).floats(rows, out)
    }

    /// Rows of a ternary tensor as −1, 0 and 1; `out` has `cols` places for each.
    pub fn trits(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [i8]) -> Result<(), Error> {
        self.mapped(t).trits(rows, out)
    }

    /// What trits are to be multiplied by: finite and not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self, t: &TensorInfo) -> Result<TritScales, Error> {
        self.mapped(t).scales()
    }

    fn mapped<'a>(&'a self, t: &'a TensorInfo) -> TensorData<'a> {
        TensorData { model: self, info: t, bytes: Cow::Borrowed(self.bytes(t)) }
    }

    /// Where what was found about the whole of a ternary tensor is kept.
    pub(crate) fn scaling_slot(&self, t: &TensorInfo) -> Option<&OnceLock<Scaling>> {
        self.slots.get(&t.name).filter(|_| t.name.is_linear()).map(|slot| &slot.scaling)
    }

    pub(crate) fn fault(&self, t: &TensorInfo, what: impl std::fmt::Display) -> Error {
        Error::tensor(name_of(&self.parts.files, t.file), &t.source_name, t.offset, what)
    }
}
