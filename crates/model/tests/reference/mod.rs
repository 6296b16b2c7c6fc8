//! The tensors that tools/golden recorded, by name.
//!
//! The file is safetensors: a length, a JSON header, data. It is our own file, so this reads only the
//! form its writer gives the header and panics at any other.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A file of recorded tensors.
pub(crate) struct Reference {
    data: Vec<u8>,
    tensors: HashMap<String, Tensor>,
}

struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

impl Reference {
    /// Reads the whole file.
    pub(crate) fn open(path: &Path) -> Self {
        let file = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (len, rest) = file.split_first_chunk::<8>().expect("a header length");
        let header_len = usize::try_from(u64::from_le_bytes(*len)).expect("a length in memory");
        let header = std::str::from_utf8(&rest[..header_len]).expect("a header in UTF-8");
        Self { data: rest[header_len..].to_vec(), tensors: parse_header(header) }
    }

    /// Values of a float32 tensor.
    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name, "F32");
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
    }

    /// Values of a float64 tensor.
    pub(crate) fn doubles(&self, name: &str) -> Vec<f64> {
        let bytes = self.bytes(name, "F64");
        bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
    }

    /// Values of an int8 tensor.
    pub(crate) fn codes(&self, name: &str) -> Vec<i8> {
        self.bytes(name, "I8").iter().map(|b| i8::from_le_bytes([*b])).collect()
    }

    /// Token numbers.
    pub(crate) fn tokens(&self, name: &str) -> Vec<u32> {
        let bytes = self.bytes(name, "I32");
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
    }

    /// Elements of one row.
    pub(crate) fn cols(&self, name: &str) -> usize {
        *self.tensor(name).shape.last().expect("at least one dimension")
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("the reference has no {name}"))
    }

    fn bytes(&self, name: &str, dtype: &str) -> &[u8] {
        let tensor = self.tensor(name);
        assert_eq!(tensor.dtype, dtype, "{name}");
        &self.data[tensor.bytes.clone()]
    }
}

/// `{"name":{"dtype":"F32","shape":[13,96],"data_offsets":[0,4992]},…}`
fn parse_header(header: &str) -> HashMap<String, Tensor> {
    let inner = header.trim_end().strip_prefix('{').and_then(|h| h.strip_suffix("}}"));
    let inner = inner.expect("an object of objects");
    inner.split("},").map(parse_entry).collect()
}

fn parse_entry(entry: &str) -> (String, Tensor) {
    let (name, body) = entry.split_once("\":{\"dtype\":\"").expect("a dtype");
    let (dtype, body) = body.split_once("\",\"shape\":[").expect("a shape");
    let (shape, offsets) = body.split_once("],\"data_offsets\":[").expect("data offsets");
    let offsets = numbers(offsets.trim_end_matches(']'));
    let name = name.strip_prefix('"').expect("a quoted name");
    let tensor =
        Tensor { dtype: dtype.to_owned(), shape: numbers(shape), bytes: offsets[0]..offsets[1] };
    (name.to_owned(), tensor)
}

fn numbers(list: &str) -> Vec<usize> {
    list.split(',').map(|n| n.parse().expect("a whole number")).collect()
}
