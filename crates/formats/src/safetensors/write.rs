//! Writes one safetensors file to any `Write`, tensor by tensor.
//!
//! As with [`crate::GgufWriter`], all tensors are declared before their data is appended.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::body::TensorBody;
use crate::encoding::FloatEncoding;
use crate::error::invalid;
use crate::size;

/// Collects declarations of tensors.
#[derive(Debug, Default)]
pub struct SafetensorsWriter {
    header: Map<String, Value>,
    /// Size of all tensors so far.
    end: u64,
}

impl SafetensorsWriter {
    /// Creates a writer without tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor of floats.
    pub fn declare(&mut self, name: &str, shape: &[usize], float: FloatEncoding) -> io::Result<()> {
        if !float.is_plain() {
            return Err(invalid(format!("{name}: safetensors has no type for {float}")));
        }
        self.add(name, shape, float.name(), float.block_bytes())
    }

    /// Adds a tensor of bytes: packed trits.
    pub fn declare_bytes(&mut self, name: &str, shape: &[usize]) -> io::Result<()> {
        self.add(name, shape, "U8", 1)
    }

    fn add(&mut self, name: &str, shape: &[usize], dtype: &str, element: u64) -> io::Result<()> {
        let mut dims: Vec<u64> = shape.iter().map(|&dim| size::widen(dim)).collect();
        dims.push(element);
        let begin = self.end;
        let Some(end) = size::product(&dims).and_then(|size| begin.checked_add(size)) else {
            return Err(invalid(format!("{name}: larger than any file")));
        };
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, end] });
        if self.header.insert(name.to_owned(), entry).is_some() {
            return Err(invalid(format!("{name}: declared twice")));
        }
        self.end = end;
        Ok(())
    }

    /// Writes the header.
    pub fn begin<W: Write>(mut self, mut out: W) -> io::Result<TensorBody<W>> {
        self.header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
        let mut json = serde_json::to_vec(&Value::Object(self.header))?;
        // Data starts at a multiple of eight, as other writers have it.
        json.resize(json.len().next_multiple_of(8), b' ');
        out.write_all(&size::widen(json.len()).to_le_bytes())?;
        out.write_all(&json)?;
        // Tensors are adjacent, so their data may be appended in pieces of any size.
        let sizes = if self.end == 0 { Vec::new() } else { vec![self.end] };
        Ok(TensorBody::new(out, sizes, 1))
    }
}
