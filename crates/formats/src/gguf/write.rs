//! Writes GGUF version 3 to any `Write`: metadata first, then tensors one after another.
//!
//! Only names and metadata are kept in memory, so a file may be larger than memory. All tensors are
//! declared first, because their offsets precede their data:
//!
//! ```no_run
//! # use wf_formats::{GgufWriter, MetadataValue, Encoding, FloatEncoding};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut writer = GgufWriter::new();
//! writer.set("general.architecture", MetadataValue::String("bitnet-b1.58".to_owned()));
//! writer.declare("output_norm.weight", &[512], Encoding::Float(FloatEncoding::F32))?;
//! let mut body = writer.begin(std::fs::File::create("model.gguf")?)?;
//! body.append(&[0; 4 * 512])?; // in one piece or in many
//! body.finish()?;
//! # Ok(()) }
//! ```

use std::io::{self, Write};

use super::types;
use crate::body::TensorBody;
use crate::error::invalid;
use crate::size;
use crate::tensor::Encoding;

/// Tensors start at multiples of this.
const ALIGNMENT: u64 = 32;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each is the GGUF type of that name")]
pub enum MetadataValue {
    U32(u32),
    F32(f32),
    Bool(bool),
    Bools(Vec<bool>),
    String(String),
    Strings(Vec<String>),
    I32s(Vec<i32>),
    U32s(Vec<u32>),
    F32s(Vec<f32>),
}

/// Collects metadata and declarations of tensors.
#[derive(Debug, Default)]
pub struct GgufWriter {
    metadata: Vec<(String, MetadataValue)>,
    tensors: Vec<Declared>,
}

#[derive(Debug)]
struct Declared {
    name: String,
    dims: Vec<u64>,
    type_id: u32,
    size: u64,
}

impl GgufWriter {
    /// Creates a writer without keys and tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. Keys are written in the order in which they are set; each may be set once.
    pub fn set(&mut self, key: &str, value: MetadataValue) {
        debug_assert!(self.metadata.iter().all(|(known, _)| known != key), "{key} is set twice");
        self.metadata.push((key.to_owned(), value));
    }

    /// Adds a tensor, and returns the size of its data. `shape` is `[rows, cols]`, the length of a
    /// vector, or `[matrices, rows, cols]`.
    pub fn declare(&mut self, name: &str, shape: &[usize], encoding: Encoding) -> io::Result<u64> {
        let (rows, cols) = match *shape {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            [matrices, rows, cols] => (matrices.saturating_mul(rows), cols),
            _ => {
                return Err(invalid(format!(
                    "{name}: shape {shape:?} must have one to three dimensions"
                )));
            }
        };
        let Some(type_id) = types::type_id(encoding) else {
            return Err(invalid(format!("{name}: GGUF has no type for {encoding}")));
        };
        let size = encoding.size(rows, cols).map_err(|e| invalid(format!("{name}: {e}")))?;
        // GGUF has the fastest dimension first.
        let dims = shape.iter().rev().map(|&dim| size::widen(dim)).collect();
        self.tensors.push(Declared { name: name.to_owned(), dims, type_id, size });
        Ok(size)
    }

    /// Writes metadata and declarations.
    pub fn begin<W: Write>(self, mut out: W) -> io::Result<TensorBody<W>> {
        let mut head = super::MAGIC.to_vec();
        head.extend(3u32.to_le_bytes());
        put_count(&mut head, self.tensors.len());
        put_count(&mut head, self.metadata.len());
        for (key, value) in &self.metadata {
            put_string(&mut head, key);
            value.put(&mut head);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            put_string(&mut head, &tensor.name);
            head.extend(u32::try_from(tensor.dims.len()).unwrap_or(u32::MAX).to_le_bytes());
            head.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            head.extend(tensor.type_id.to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset = offset
                .checked_add(tensor.size)
                .and_then(|end| size::align_up(end, ALIGNMENT))
                .ok_or_else(|| invalid("larger than any file".to_owned()))?;
        }
        head.resize(head.len().next_multiple_of(ALIGNMENT as usize), 0);
        out.write_all(&head)?;
        let sizes = self.tensors.into_iter().map(|tensor| tensor.size).collect();
        Ok(TensorBody::new(out, sizes, ALIGNMENT))
    }
}

impl MetadataValue {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::U32(value) => put_word(out, 4, value.to_le_bytes()),
            Self::F32(value) => put_word(out, 6, value.to_le_bytes()),
            Self::Bool(value) => {
                out.extend(7u32.to_le_bytes());
                out.push(u8::from(*value));
            }
            Self::String(value) => {
                out.extend(8u32.to_le_bytes());
                put_string(out, value);
            }
            Self::Strings(values) => {
                put_array(out, 8, values.len());
                values.iter().for_each(|value| put_string(out, value));
            }
            Self::I32s(values) => put_words(out, 5, values.iter().map(|v| v.to_le_bytes())),
            Self::U32s(values) => put_words(out, 4, values.iter().map(|v| v.to_le_bytes())),
            Self::F32s(values) => put_words(out, 6, values.iter().map(|v| v.to_le_bytes())),
            Self::Bools(values) => {
                put_array(out, 7, values.len());
                out.extend(values.iter().map(|&value| u8::from(value)));
            }
        }
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(size::widen(count).to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend(text.as_bytes());
}

/// Writes a value of four bytes.
fn put_word(out: &mut Vec<u8>, type_id: u32, word: [u8; 4]) {
    out.extend([type_id.to_le_bytes(), word].as_flattened());
}

fn put_words(out: &mut Vec<u8>, element_type: u32, words: impl ExactSizeIterator<Item = [u8; 4]>) {
    put_array(out, element_type, words.len());
    out.extend(words.flatten());
}

/// Writes the type, element type and length of an array.
fn put_array(out: &mut Vec<u8>, element_type: u32, len: usize) {
    put_word(out, 9, element_type.to_le_bytes());
    put_count(out, len);
}
