//! A GGUF model, written byte by byte so that every field can be marked.

use wf_formats::TensorName;
use wf_formats::encoding::{FloatEncoding, TernaryEncoding};

use crate::sample::{self, HEADS, HIDDEN, Kind, Sample, SampleFile, VOCAB};

/// The encodings that GGUF files are written with, and their type numbers; the first is I2_S.
pub(crate) fn encodings() -> Vec<(TernaryEncoding, u32)> {
    let written = TernaryEncoding::ALL.iter().filter(|encoding| encoding.flag().is_some());
    written.map(|encoding| (*encoding, encoding.gguf_type().unwrap())).collect()
}

/// The difference to a valid file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Twist {
    /// Additional metadata: key, and the bytes of type and value.
    pub(crate) extra: Option<(&'static str, Vec<u8>)>,
    /// Tokens more (or less) than the embedding has rows.
    pub(crate) more_tokens: isize,
    /// Token types more (or less) than tokens.
    pub(crate) more_types: isize,
    /// Encoding of the embedding.
    pub(crate) table: Table,
}

/// Encoding of the embedding.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Table {
    #[default]
    Floats,
    /// That of the projections.
    Ternary,
    Blocks(FloatEncoding),
}

pub(crate) const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const STRING: u32 = 8;
pub(crate) const ARRAY: u32 = 9;

pub(crate) fn model(encoding: TernaryEncoding, type_id: u32, twist: &Twist) -> Sample {
    let mut file = SampleFile::new("model.gguf");
    let tensors = sample::network();
    file.bytes.extend(b"GGUF");
    file.put(Kind::Type, &3_u32.to_le_bytes());
    file.put(Kind::Count, &(tensors.len() as u64).to_le_bytes());
    let keys_at = file.bytes.len();
    file.put(Kind::Count, &0_u64.to_le_bytes());
    let keys = metadata(&mut file, twist);
    file.bytes[keys_at..keys_at + 8].copy_from_slice(&keys.to_le_bytes());

    let mut offset = 0_u64;
    let mut data = Vec::new();
    for (name, rows, cols) in tensors {
        let (bytes, type_id) = match (name, twist.table) {
            (TensorName::Embedding, Table::Blocks(float)) => {
                (sample::blocks(float, rows, cols), float.gguf_type())
            }
            (TensorName::Embedding, Table::Ternary) => {
                (sample::ternary(encoding, rows, cols), type_id)
            }
            _ if name.is_linear() => (sample::ternary(encoding, rows, cols), type_id),
            _ => (sample::floats(rows * cols), 0),
        };
        text(&mut file, Kind::Name, &name.gguf());
        let dims: &[usize] = if rows == 1 { &[cols] } else { &[cols, rows] };
        file.put(Kind::DimCount, &(dims.len() as u32).to_le_bytes());
        for dim in dims {
            file.put(Kind::Dim, &(*dim as u64).to_le_bytes());
        }
        file.put(Kind::Type, &type_id.to_le_bytes());
        file.put(Kind::Offset, &offset.to_le_bytes());
        offset += (bytes.bytes.len() as u64).next_multiple_of(32);
        data.push(bytes);
    }
    file.header_len = file.bytes.len();
    for bytes in data {
        file.bytes.resize(file.bytes.len().next_multiple_of(32), 0);
        file.put_data(&bytes);
    }
    file.bytes.resize(file.bytes.len().next_multiple_of(32), 0);
    Sample { files: vec![file], open: Some("model.gguf") }
}

fn text(file: &mut SampleFile, kind: Kind, text: &str) {
    file.put(Kind::Length, &(text.len() as u64).to_le_bytes());
    file.put(kind, text.as_bytes());
}

/// Writes the metadata and returns the number of keys.
fn metadata(file: &mut SampleFile, twist: &Twist) -> u64 {
    let mut keys = 0;
    let mut key = |file: &mut SampleFile, name: &str, type_id: u32| {
        keys += 1;
        text(file, Kind::Key, name);
        file.put(Kind::Type, &type_id.to_le_bytes());
    };
    for (name, value) in [
        ("general.architecture", "bitnet-b1.58"),
        ("general.name", "sample"),
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "gpt-2"),
        (
            "tokenizer.chat_template",
            "{% for message in messages %}{{ message.content }}{% endfor %}",
        ),
    ] {
        key(file, name, STRING);
        text(file, Kind::Text, value);
    }
    key(file, "general.alignment", U32);
    file.put(Kind::Alignment, &32_u32.to_le_bytes());
    for (name, value) in [
        ("embedding_length", HIDDEN),
        ("feed_forward_length", HIDDEN),
        ("block_count", 1),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", 1),
        ("context_length", 128),
    ] {
        key(file, &format!("bitnet-b1.58.{name}"), U32);
        file.put(Kind::Count, &(value as u32).to_le_bytes());
    }
    for (name, value) in
        [("rope.freq_base", 500_000.0_f32), ("attention.layer_norm_rms_epsilon", 1e-5)]
    {
        key(file, &format!("bitnet-b1.58.{name}"), F32);
        file.bytes.extend(&value.to_le_bytes()[..2]);
        file.put(Kind::Float, &value.to_le_bytes()[2..]);
    }
    for (name, id) in [("bos", 0), ("eos", 1)] {
        key(file, &format!("tokenizer.ggml.{name}_token_id"), U32);
        file.put(Kind::Token, &u32::to_le_bytes(id));
    }
    let tokens = VOCAB.saturating_add_signed(twist.more_tokens);
    key(file, "tokenizer.ggml.tokens", ARRAY);
    file.put(Kind::Type, &STRING.to_le_bytes());
    file.put(Kind::Count, &(tokens as u64).to_le_bytes());
    for token in 0..tokens {
        text(file, Kind::Text, &format!("t{token}"));
    }
    let types = tokens.saturating_add_signed(twist.more_types);
    key(file, "tokenizer.ggml.token_type", ARRAY);
    file.put(Kind::Type, &I32.to_le_bytes());
    file.put(Kind::Count, &(types as u64).to_le_bytes());
    file.bytes.extend((0..types).flat_map(|_| 1_i32.to_le_bytes()));
    key(file, "tokenizer.ggml.merges", ARRAY);
    file.put(Kind::Type, &STRING.to_le_bytes());
    file.put(Kind::Count, &2_u64.to_le_bytes());
    text(file, Kind::Text, "t 1");
    text(file, Kind::Text, "t 2");
    if let Some((name, value)) = &twist.extra {
        keys += 1;
        text(file, Kind::Key, name);
        file.bytes.extend(value);
    }
    keys
}

/// The bytes of arrays within arrays.
pub(crate) fn nested_arrays(depth: usize) -> Vec<u8> {
    let mut value = ARRAY.to_le_bytes().to_vec();
    for _ in 1..depth {
        value.extend(ARRAY.to_le_bytes());
        value.extend(1_u64.to_le_bytes());
    }
    value.extend(U32.to_le_bytes());
    value.extend(0_u64.to_le_bytes());
    value
}
