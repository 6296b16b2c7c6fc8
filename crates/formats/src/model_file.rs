//! A model in any supported format, opened and checked.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::config::{Activation, ModelConfig};
use crate::encoding::{
    EncodingError, FloatEncoding, I2sOrder, TernaryEncoding, TritScales, decode_floats,
    decode_scales, decode_trits,
};
use crate::error::Error;
use crate::generation::GenerationDefaults;
use crate::map::FileBytes;
use crate::names::TensorName;
use crate::scaling::{self, Scaling};
use crate::summary::FormatSummary;
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::vocabulary::{ModelText, SpecialTokenTexts, TokenizerSource};
use crate::{gguf, hugging_face, sglbitnt, size, ternary_floats};

/// What a file cannot tell, told by the user.
#[derive(Debug, Default, Clone)]
pub struct OpenOptions {
    /// Order of I2_S trits; published files have groups of 128.
    pub i2s_order: Option<I2sOrder>,
    /// The function on the gate.
    pub activation: Option<Activation>,
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
    /// Opens a GGUF file, an SGLBITNT `.bin`, a `.safetensors` with its `config.json` beside it, or a
    /// Hugging Face directory.
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
        } else {
            let what = "neither GGUF nor SGLBITNT by its first bytes, and not named .safetensors";
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

    /// Rows of a tensor of floats; `out` has `cols` places for each.
    pub fn floats(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [f32]) -> Result<(), Error> {
        let Some(float) = t.encoding.float() else {
            return Err(self.fault(t, format!("is {}, not floats", t.encoding)));
        };
        self.float_rows(t, float, rows, out).map_err(|e| self.fault(t, e))
    }

    /// Rows of a ternary tensor as −1, 0 and 1; `out` has `cols` places for each.
    pub fn trits(&self, t: &TensorInfo, rows: Range<usize>, out: &mut [i8]) -> Result<(), Error> {
        let scaling = self.scaling(t)?;
        let result = match t.encoding {
            Encoding::Ternary(encoding) => {
                decode_trits(encoding, self.bytes(t), t.rows, t.cols, rows.clone(), out)
                    .map(|()| scaling.silence(t.cols, rows, out))
            }
            Encoding::MasterWeights(float) | Encoding::TernaryFloats(float) => {
                self.rounded(t, float, rows, out, scaling)
            }
            Encoding::Float(_) => {
                return Err(self.fault(t, format!("is {}, not trits", t.encoding)));
            }
        };
        result.map_err(|e| self.fault(t, e))
    }

    /// What trits are to be multiplied by: finite and not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self, t: &TensorInfo) -> Result<TritScales, Error> {
        let scales = match t.encoding {
            // Their scale lies beside the trits, or was found when the file was opened.
            Encoding::Ternary(TernaryEncoding::HfPacked | TernaryEncoding::SglPacked)
            | Encoding::TernaryFloats(_) => TritScales::Tensor(1.0),
            Encoding::Ternary(encoding) => {
                let scales = decode_scales(encoding, self.bytes(t), t.rows, t.cols)
                    .map_err(|e| self.fault(t, e))?;
                scaling::fill_zeros(scales, t.rows)
            }
            Encoding::MasterWeights(_) => TritScales::Tensor(self.scaling(t)?.mean()),
            Encoding::Float(_) => {
                return Err(self.fault(t, format!("is {}, not trits", t.encoding)));
            }
        };
        let scales = times(scales, t.factor);
        scales.check(t.rows, t.cols).map_err(|e| self.fault(t, e))?;
        Ok(scales)
    }

    pub(crate) fn fault(&self, t: &TensorInfo, what: impl std::fmt::Display) -> Error {
        Error::tensor(name_of(&self.parts.files, t.file), &t.source_name, t.offset, what)
    }

    fn scaling(&self, t: &TensorInfo) -> Result<&Scaling, Error> {
        let slot = self.slots.get(&t.name).filter(|_| t.name.is_linear()).map(|slot| &slot.scaling);
        let Some(slot) = slot else {
            return Err(self.fault(t, format!("is {}, not trits", t.encoding)));
        };
        if let Some(known) = slot.get() {
            return Ok(known);
        }
        let found = Scaling::of(t, self.bytes(t)).map_err(|e| self.fault(t, e))?;
        // Another thread may have been quicker; it found the same.
        Ok(slot.get_or_init(|| found))
    }

    fn float_rows(
        &self,
        t: &TensorInfo,
        float: FloatEncoding,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), EncodingError> {
        let row_size = float.row_size(t.cols)?;
        check_rows(t, &rows, out.len())?;
        let first = size::product(&[row_size, size::widen(rows.start)]).unwrap_or(u64::MAX);
        let len = size::product(&[row_size, size::widen(rows.len())]).unwrap_or(u64::MAX);
        let bytes = size::slice(self.bytes(t), first, len).unwrap_or_default();
        decode_floats(float, bytes, out)
    }

    /// Trits out of float rows, one row at a time.
    fn rounded(
        &self,
        t: &TensorInfo,
        float: FloatEncoding,
        rows: Range<usize>,
        out: &mut [i8],
        scaling: &Scaling,
    ) -> Result<(), EncodingError> {
        check_rows(t, &rows, out.len())?;
        let mut weights = vec![0.0; t.cols];
        for (row, out) in rows.zip(out.chunks_exact_mut(t.cols.max(1))) {
            self.float_rows(t, float, row..row.saturating_add(1), &mut weights)?;
            match scaling {
                Scaling::Mean(mean) => mean.trits(&weights, out)?,
                _ => ternary_floats::signs(&weights, out),
            }
        }
        Ok(())
    }
}

/// Checks that the rows are there, and that the caller's buffer has their size.
fn check_rows(t: &TensorInfo, rows: &Range<usize>, buffer: usize) -> Result<(), EncodingError> {
    if rows.start > rows.end || rows.end > t.rows {
        return Err(EncodingError::Rows { start: rows.start, end: rows.end, rows: t.rows });
    }
    // Opening the file has proved that rows * cols fits.
    let expected = rows.len().saturating_mul(t.cols);
    if buffer == expected {
        return Ok(());
    }
    Err(EncodingError::Buffer { expected, found: buffer })
}

fn times(mut scales: TritScales, factor: f32) -> TritScales {
    match &mut scales {
        TritScales::Tensor(scale) => *scale *= factor,
        TritScales::Rows(values) | TritScales::Groups { values, .. } => {
            values.iter_mut().for_each(|scale| *scale *= factor);
        }
    }
    scales
}
