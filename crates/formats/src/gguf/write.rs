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

    /// Adds a tensor, and returns the size of its data. `shape` is `[rows, cols]`, or the length of a
    /// vector.
    pub fn declare(&mut self, name: &str, shape: &[usize], encoding: Encoding) -> io::Result<u64> {
        let (rows, cols) = match *shape {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            _ => {
                return Err(invalid(format!(
                    "{name}: shape {shape:?} is neither a vector nor a matrix"
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
    pub fn begin<W: Write>(self, out: W) -> io::Result<GgufBody<W>> {
        let mut out = Counted { out, written: 0 };
        out.write_all(super::MAGIC)?;
        out.write_all(&3u32.to_le_bytes())?;
        out.count(self.tensors.len())?;
        out.count(self.metadata.len())?;
        for (key, value) in &self.metadata {
            out.string(key)?;
            out.value(value)?;
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            out.string(&tensor.name)?;
            out.write_all(&u32::try_from(tensor.dims.len()).unwrap_or(u32::MAX).to_le_bytes())?;
            for dim in &tensor.dims {
                out.write_all(&dim.to_le_bytes())?;
            }
            out.write_all(&tensor.type_id.to_le_bytes())?;
            out.write_all(&offset.to_le_bytes())?;
            offset = size::end(offset, tensor.size)
                .and_then(|end| size::align_up(end, ALIGNMENT))
                .ok_or_else(|| invalid("larger than any file".to_owned()))?;
        }
        out.pad()?;
        let sizes = self.tensors.into_iter().map(|tensor| tensor.size).collect();
        let mut body = GgufBody { out, sizes, current: 0, missing: 0 };
        body.missing = body.sizes.first().copied().unwrap_or(0);
        Ok(body)
    }
}

/// Writes the data of the tensors, in the order in which they were declared.
#[derive(Debug)]
pub struct GgufBody<W: Write> {
    out: Counted<W>,
    sizes: Vec<u64>,
    current: usize,
    /// Bytes missing from the current tensor.
    missing: u64,
}

impl<W: Write> GgufBody<W> {
    /// Appends to the current tensor, and continues with the next when it is complete.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = size::widen(bytes.len());
        let Some(missing) = self.missing.checked_sub(len) else {
            let what = format!("tensor {}: {len} bytes more than declared", self.current);
            return Err(invalid(what));
        };
        self.out.write_all(bytes)?;
        self.missing = missing;
        if missing == 0 {
            self.out.pad()?;
            self.current = self.current.saturating_add(1);
            self.missing = self.sizes.get(self.current).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Checks that every tensor is complete, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.current != self.sizes.len() {
            let what = format!("tensor {}: {} bytes are missing", self.current, self.missing);
            return Err(invalid(what));
        }
        self.out.out.flush()?;
        Ok(self.out.out)
    }
}

/// A `Write` that counts bytes.
#[derive(Debug)]
struct Counted<W: Write> {
    out: W,
    written: u64,
}

impl<W: Write> Counted<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written = self.written.saturating_add(size::widen(bytes.len()));
        Ok(())
    }

    fn count(&mut self, count: usize) -> io::Result<()> {
        self.write_all(&size::widen(count).to_le_bytes())
    }

    fn string(&mut self, text: &str) -> io::Result<()> {
        self.count(text.len())?;
        self.write_all(text.as_bytes())
    }

    fn value(&mut self, value: &MetadataValue) -> io::Result<()> {
        match value {
            MetadataValue::U32(value) => self.typed(4, &value.to_le_bytes()),
            MetadataValue::F32(value) => self.typed(6, &value.to_le_bytes()),
            MetadataValue::Bool(value) => self.typed(7, &[u8::from(*value)]),
            MetadataValue::String(value) => {
                self.typed(8, &[])?;
                self.string(value)
            }
            MetadataValue::Strings(values) => {
                self.array(8, values.len())?;
                values.iter().try_for_each(|value| self.string(value))
            }
            MetadataValue::I32s(values) => self.words(5, values.iter().map(|v| v.to_le_bytes())),
            MetadataValue::U32s(values) => self.words(4, values.iter().map(|v| v.to_le_bytes())),
            MetadataValue::F32s(values) => self.words(6, values.iter().map(|v| v.to_le_bytes())),
        }
    }

    fn words(
        &mut self,
        element_type: u32,
        mut words: impl ExactSizeIterator<Item = [u8; 4]>,
    ) -> io::Result<()> {
        self.array(element_type, words.len())?;
        words.try_for_each(|word| self.write_all(&word))
    }

    fn typed(&mut self, type_id: u32, bytes: &[u8]) -> io::Result<()> {
        self.write_all(&type_id.to_le_bytes())?;
        self.write_all(bytes)
    }

    fn array(&mut self, element_type: u32, len: usize) -> io::Result<()> {
        self.typed(9, &element_type.to_le_bytes())?;
        self.count(len)
    }

    fn pad(&mut self) -> io::Result<()> {
        let padded = size::align_up(self.written, ALIGNMENT).unwrap_or(self.written);
        let missing = usize::try_from(padded.saturating_sub(self.written)).unwrap_or(0);
        let zeros = [0u8; ALIGNMENT as usize];
        self.write_all(zeros.get(..missing).unwrap_or_default())
    }
}
