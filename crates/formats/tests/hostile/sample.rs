//! Small valid models, with marks on the parts that mutations change.

use wf_formats::encoding::{FloatEncoding, Rounding, Scales, TernaryEncoding, encode_trits};
use wf_formats::{LayerTensor, TensorName};

/// The kind of marked bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number of keys, tensors or elements.
    Count,
    /// A length in bytes.
    Length,
    /// A number of dimensions.
    DimCount,
    /// One dimension.
    Dim,
    /// An offset of data.
    Offset,
    /// The type of a value or tensor.
    Type,
    /// The name of a metadata value.
    Key,
    /// The name of a tensor.
    Name,
    /// Any other text.
    Text,
    /// The alignment of tensors.
    Alignment,
    /// A token id.
    Token,
    /// A float: the two bytes that hold its sign and exponent.
    Float,
    /// Bytes of two-bit codes.
    Codes,
    /// Bytes of base-3 numbers.
    Base3,
}

/// A marked part of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) kind: Kind,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// A file under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct SampleFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
    /// Bytes before the tensors' data.
    pub(crate) header_len: usize,
}

/// A model: its files, and which of them to open (the directory if none is named).
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) files: Vec<SampleFile>,
    pub(crate) open: Option<&'static str>,
}

impl SampleFile {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Appends bytes and marks them.
    pub(crate) fn put(&mut self, kind: Kind, bytes: &[u8]) {
        self.marks.push(Mark { kind, at: self.bytes.len(), len: bytes.len() });
        self.bytes.extend(bytes);
    }

    /// Appends a tensor's data, which has marks of its own.
    pub(crate) fn put_data(&mut self, data: &TensorBytes) {
        let start = self.bytes.len();
        self.marks.extend(data.marks.iter().map(|mark| Mark { at: start + mark.at, ..*mark }));
        self.bytes.extend(&data.bytes);
    }
}

/// The bytes of a tensor, with marks on its codes and floats.
pub(crate) struct TensorBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
}

/// Sizes of the sample network: the smallest that every encoding can hold (256 columns).
pub(crate) const HIDDEN: usize = 256;
pub(crate) const KV_ROWS: usize = 16;
pub(crate) const HEADS: usize = 16;
pub(crate) const VOCAB: usize = 24;

/// The tensors of the sample network, a BitNet model, with rows and columns.
pub(crate) fn network() -> Vec<(TensorName, usize, usize)> {
    let mut tensors = vec![(TensorName::Embedding, VOCAB, HIDDEN)];
    use LayerTensor as T;
    let linears = [T::Query, T::Key, T::Value, T::AttnOutput, T::Gate, T::Up, T::Down];
    let norms = [T::AttnNorm, T::AttnSubNorm, T::FfnNorm, T::FfnSubNorm];
    for tensor in linears.into_iter().chain(norms) {
        let rows = match tensor {
            LayerTensor::Key | LayerTensor::Value => KV_ROWS,
            _ if tensor.is_linear() => HIDDEN,
            _ => 1,
        };
        tensors.push((TensorName::Layer(0, tensor), rows, HIDDEN));
    }
    tensors.push((TensorName::OutputNorm, 1, HIDDEN));
    tensors
}

/// Trits that depend on their place.
pub(crate) fn trits(count: usize) -> Vec<i8> {
    (0..count).map(|at| ((at * at + at / 5) % 3) as i8 - 1).collect()
}

/// Bytes of a block encoding whose factors are finite: no f16 in them has the exponent of infinity.
pub(crate) fn blocks(encoding: FloatEncoding, rows: usize, cols: usize) -> TensorBytes {
    let len = rows * encoding.row_size(cols).unwrap() as usize;
    let bytes = (0..len).map(|at| (at * 37 + 11) as u8 & 0xbb).collect();
    TensorBytes { bytes, marks: Vec::new() }
}

pub(crate) fn ternary(encoding: TernaryEncoding, rows: usize, cols: usize) -> TensorBytes {
    let encode = |trits: &[i8], scale: f32| {
        let scales = Scales::Tensor(scale);
        encode_trits(encoding, trits, rows, cols, &scales, Rounding::Exact).unwrap()
    };
    let mut trits = trits(rows * cols);
    if !encoding.has_zero() {
        trits.iter_mut().filter(|trit| **trit == 0).for_each(|trit| *trit = 1);
    }
    let bytes = encode(&trits, 1.0);
    // Found independently of the encodings' tables: scales and codes are the bytes
    // that change. 1.0 and 2.0 differ in the byte with sign and exponent.
    let differing = |a: &[u8], b: &[u8]| -> Vec<usize> {
        a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect()
    };
    let ones = vec![1; rows * cols];
    let minus_ones = vec![-1; rows * cols];
    let mut tops = differing(&encode(&ones, 1.0), &encode(&ones, 2.0));
    // f32 1.0 is 3f80 0000 and 2.0 is 4000 0000: two bytes differ, the upper one is the top.
    tops.retain(|at| bytes.get(*at) == Some(&0x3f) || bytes.get(*at) == Some(&0x3c));
    let mut marks: Vec<Mark> =
        tops.iter().map(|top| Mark { kind: Kind::Float, at: top - 1, len: 2 }).collect();
    let codes = differing(&encode(&ones, 1.0), &encode(&minus_ones, 1.0));
    // Four two-bit codes of zero; a base-3 number of zeros is another byte.
    let zeros = encode(&vec![0; rows * cols], 1.0);
    let is_code = codes.first().is_some_and(|at| zeros[*at] == 0b01_01_01_01);
    let kind = if is_code { Kind::Codes } else { Kind::Base3 };
    // Any byte is eight signs: nothing there can be wrong.
    let codes = codes.into_iter().filter(|_| encoding.has_zero());
    marks.extend(codes.map(|at| Mark { kind, at, len: 1 }));
    TensorBytes { bytes, marks }
}

pub(crate) fn floats(count: usize) -> TensorBytes {
    let values = (0..count).map(|at| (at % 17) as f32 / 8.0 - 1.0);
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    let marks = (0..count).map(|at| Mark { kind: Kind::Float, at: 4 * at + 2, len: 2 }).collect();
    TensorBytes { bytes, marks }
}

/// A small generator with a seed (`SplitMix64`), so that failures are reproducible.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
