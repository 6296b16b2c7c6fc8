//! Invalid GGUF files: the error names the position and the rule.

use std::fs;

use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, MetadataValue, ModelFile, OpenOptions, TensorName,
};

use crate::support::{I2_S, Sample};

/// A GGUF file put together byte by byte.
struct Raw {
    keys: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<RawTensor>,
    data: usize,
}

struct RawTensor {
    name: String,
    dims: Vec<u64>,
    type_id: u32,
    offset: u64,
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn tensor(name: &str, dims: &[u64], type_id: u32, offset: u64) -> RawTensor {
    RawTensor { name: name.to_owned(), dims: dims.to_vec(), type_id, offset }
}

impl Raw {
    fn new() -> Self {
        Self { keys: Vec::new(), tensors: Vec::new(), data: 0 }
    }

    fn key(mut self, key: &str, type_id: u32, value: Vec<u8>) -> Self {
        self.keys.push((key.to_owned(), type_id, value));
        self
    }

    fn tensor(mut self, tensor: RawTensor) -> Self {
        self.tensors.push(tensor);
        self
    }

    fn data(mut self, len: usize) -> Self {
        self.data = len;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        for (key, type_id, value) in &self.keys {
            bytes.extend(text(key));
            bytes.extend(type_id.to_le_bytes());
            bytes.extend(value);
        }
        for tensor in &self.tensors {
            bytes.extend(text(&tensor.name));
            bytes.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
            bytes.extend(tensor.type_id.to_le_bytes());
            bytes.extend(tensor.offset.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(32) + self.data, 0);
        bytes
    }

    fn rejected(&self, expected: &str) {
        rejected(self.bytes(), expected);
    }
}

/// Checks that opening bytes fails with a message that contains `expected`.
fn rejected(bytes: Vec<u8>, expected: &str) {
    match ModelFile::from_bytes("m.gguf", bytes.leak(), &OpenOptions::default()) {
        Ok(_) => panic!("not rejected, expected: {expected}"),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(expected), "{expected}: {message}");
            assert!(message.starts_with("m.gguf: "), "{message}");
        }
    }
}

#[test]
fn rejects_other_headers() {
    let version = |version: [u8; 4]| [b"GGUF".as_slice(), &version, &[0; 16]].concat();
    rejected(version([1, 0, 0, 0]), "byte 4: version: 1, whose lengths are 32 bits wide");
    rejected(version([0, 0, 0, 3]), "big-endian");
    rejected(version([4, 0, 0, 0]), "4, allowed are 2 and 3");
    rejected(b"GGUF".to_vec(), "byte 4: version: needs 4 bytes, 0 remain");
    rejected(version([3, 0, 0, 0]), "general.architecture: missing");
}

#[test]
fn counts_are_bounded_by_the_file() {
    let counts = |tensors: u64, keys: u64| {
        let mut bytes = Raw::new().data(4096).bytes();
        bytes[8..16].copy_from_slice(&tensors.to_le_bytes());
        bytes[16..24].copy_from_slice(&keys.to_le_bytes());
        bytes
    };
    rejected(counts(u64::MAX, 0), "tensors, at most");
    rejected(counts(1 << 40, 0), "tensors, at most");
    rejected(counts(0, u64::MAX), "keys, at most 65536");
    rejected(counts(0, 1 << 20), "keys, at most 65536");
}

#[test]
fn lengths_are_bounded_before_they_are_used() {
    let long = |len: u64| {
        let mut value = len.to_le_bytes().to_vec();
        value.extend([b'x'; 64]);
        value
    };
    for len in [65_537, 1 << 31, u64::MAX] {
        Raw::new().key("a", 8, long(len)).data(70_000).rejected("at most 65536 allowed");
    }
    Raw::new().key("a", 8, long(65_536)).rejected("needs 65536 bytes");
    let template = "tokenizer.chat_template";
    Raw::new().key(template, 8, long(1 << 20)).rejected("needs 1048576 bytes");
    Raw::new().key(template, 8, long((1 << 20) + 1)).rejected("at most 1048576 allowed");
    Raw::new().key(&"k".repeat(257), 7, vec![0]).rejected("257 bytes long, at most 256 allowed");
    Raw::new().key(&"k".repeat(256), 7, vec![0]).rejected("general.architecture: missing");
}

#[test]
fn arrays_are_bounded_by_the_file() {
    let array = |element: u32, len: u64| {
        let mut value = element.to_le_bytes().to_vec();
        value.extend(len.to_le_bytes());
        value
    };
    Raw::new().key("a", 9, array(12, u64::MAX)).rejected("larger than any file");
    Raw::new().key("a", 9, array(4, 1 << 40)).rejected("remain in the file");
    Raw::new().key("a", 9, array(8, 1 << 60)).rejected("remain in the file");
    Raw::new().key("a", 9, array(9, 1)).rejected("an array of arrays");
    Raw::new().key("a", 9, array(13, 1)).rejected("value type 13");
    Raw::new().key("a", 13, Vec::new()).rejected("value type 13, allowed 0 to 12");
    Raw::new().key("a", 7, vec![2]).rejected("bool 2, allowed 0 and 1");
}

#[test]
fn keys_and_tensors_are_unique() {
    let twice = Raw::new().key("a", 7, vec![0]).key("a", 7, vec![1]);
    twice.rejected("\"a\" appears twice");
    let twice = Raw::new().tensor(tensor("t", &[1], 0, 0)).tensor(tensor("t", &[1], 0, 32));
    twice.data(64).rejected("\"t\" appears twice");
}

#[test]
fn text_must_be_utf_8() {
    let mut value = 2u64.to_le_bytes().to_vec();
    value.extend([0xc3, 0x28]);
    Raw::new().key("a", 8, value).rejected("not UTF-8 at its byte 0");
}

#[test]
fn alignment_is_a_small_power_of_two() {
    for bad in [0u32, 3, 8192, 1 << 31] {
        let raw = Raw::new().key("general.alignment", 4, bad.to_le_bytes().to_vec());
        raw.rejected("allowed are powers of two from 1 to 4096");
    }
    let raw = Raw::new().key("general.alignment", 8, text("32"));
    raw.rejected("found \"32\", must be an integer");
    let raw = Raw::new().key("general.alignment", 4, 64u32.to_le_bytes().to_vec());
    raw.tensor(tensor("t", &[1], 0, 32)).data(256).rejected("not a multiple of the alignment 64");
}

#[test]
fn shapes_cannot_wrap() {
    let shaped = |dims: &[u64]| Raw::new().tensor(tensor("t", dims, 0, 0)).data(64);
    shaped(&[]).rejected("0 dimensions, allowed 1 to 4");
    shaped(&[1, 1, 1, 1, 1]).rejected("5 dimensions, allowed 1 to 4");
    shaped(&[0]).rejected("a dimension of 0");
    shaped(&[1 << 31]).rejected("a dimension of 2147483648, allowed 1 to 2147483647");
    shaped(&[u64::MAX, 2]).rejected("a dimension of");
    let large = i32::MAX as u64;
    shaped(&[large, large, large, large]).rejected("larger than any file");
    shaped(&[1 << 20, 1 << 20]).rejected("takes 4398046511104 bytes");
}

#[test]
fn rejects_tensors_outside_the_file_and_overlaps() {
    let one = |offset: u64| Raw::new().tensor(tensor("t", &[16], 0, offset)).data(64);
    one(32).rejected("32 more than there are before the end of the file");
    one(96).rejected("lies past the end of the file");
    one(u64::MAX - 31).rejected("lies past the end of the file");
    one(33).rejected("not a multiple of the alignment 32");
    let two = |second: u64| {
        let raw = Raw::new().tensor(tensor("a", &[16], 0, 0));
        raw.tensor(tensor("b", &[16], 0, second)).data(128)
    };
    two(0).rejected("shares byte");
    two(32).rejected("32 more than there are before the next tensor");
    two(64).rejected("general.architecture: missing");
}

/// A valid model with more keys.
fn sound(more: impl FnOnce(&mut GgufWriter)) -> Vec<u8> {
    Sample::new().gguf(I2_S, FloatEncoding::F32, more)
}

fn tokens(count: usize) -> MetadataValue {
    MetadataValue::Strings((0..count).map(|id| format!("t{id}")).collect())
}

#[test]
fn rejects_inconsistent_vocabularies() {
    let vocabulary = |more: fn(&mut GgufWriter)| {
        sound(|writer| {
            writer.set("tokenizer.ggml.model", MetadataValue::String("gpt2".to_owned()));
            more(writer);
        })
    };
    rejected(
        vocabulary(|w| w.set("tokenizer.ggml.tokens", tokens(301))),
        "301 tokens, but the embedding has 300 rows",
    );
    rejected(
        vocabulary(|w| {
            w.set("tokenizer.ggml.tokens", tokens(300));
            w.set("tokenizer.ggml.token_type", MetadataValue::I32s(vec![1; 299]));
        }),
        "299 entries for 300 tokens",
    );
    rejected(
        vocabulary(|w| {
            w.set("tokenizer.ggml.tokens", tokens(200));
            w.set("tokenizer.ggml.eos_token_id", MetadataValue::U32(200));
        }),
        "tokenizer.ggml.eos_token_id: 200, but there are 200 tokens",
    );
    rejected(
        vocabulary(|w| {
            w.set("tokenizer.ggml.tokens", tokens(2));
            w.set("tokenizer.ggml.scores", MetadataValue::F32s(vec![0.0, f32::NAN]));
        }),
        "the score of token 1 is not a finite number",
    );
    rejected(
        sound(|w| w.set("tokenizer.ggml.tokens", tokens(2))),
        "tokenizer.ggml.model: missing, but the file has tokens",
    );
}

#[test]
fn rejects_unsupported_settings() {
    let arch = "bitnet-b1.58";
    let set = |key: &str, value: MetadataValue| sound(|w| w.set(&format!("{arch}.{key}"), value));
    let string = |text: &str| MetadataValue::String(text.to_owned());
    rejected(
        set("rope.scaling.type", string("spiral")),
        "\"spiral\", must be one of none, linear,",
    );
    rejected(
        set("rope.scaling.type", string("longrope")),
        "no tensor \"rope_factors_long.weight\"",
    );
    let factor = |factor| set("rope.scaling.factor", MetadataValue::F32(factor));
    rejected(factor(-1.0), "rotary factor: -1, must be a positive number");
    rejected(factor(f32::INFINITY), "rope.scaling.factor: found \"inf\", must be a number");
    let window = set("attention.sliding_window", MetadataValue::U32(512));
    rejected(window, "512, attention windows are not supported");
    rejected(
        set("rope.dimension_count", MetadataValue::U32(32)),
        "32, must equal the head size 64",
    );
    rejected(
        set("attention.value_length", MetadataValue::U32(32)),
        "32, must equal the head size 64",
    );
    rejected(
        set("expert_count", MetadataValue::U32(8)),
        "expert_count: 8, experts are not supported in",
    );
    rejected(
        set("hidden_activation", string("gelu")),
        "\"gelu\", must be one of relu2, silu, gelu_pytorch_tanh",
    );
    rejected(
        set("attention.causal", MetadataValue::Bool(false)),
        "attention.causal: false is supported with",
    );
    rejected(set("block_size", MetadataValue::U32(32)), "mask_token_id");
    rejected(sound(|w| w.set("split.count", MetadataValue::U32(3))), "join the parts first");
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", string("mamba"));
    writer.declare("token_embd.weight", &[4, 4], Encoding::Float(FloatEncoding::F32)).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    body.append(&[0; 64]).unwrap();
    let message = "\"mamba\", must be one of bitnet-b1.58, bitnet-25, bitnet, llama, ";
    rejected(body.finish().unwrap(), message);
}

#[test]
fn architectures_and_transforms_that_cannot_run_are_rejected_with_the_reason() {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", MetadataValue::String("qwen35moe".to_owned()));
    let body = writer.begin(Vec::new()).unwrap();
    let reason =
        "\"qwen35moe\", recurrent layers (Gated DeltaNet) beside experts are not supported";
    rejected(body.finish().unwrap(), reason);
    let transformed = sound(|w| w.set("prism.hadamard.block_size", MetadataValue::U32(1024)));
    rejected(
        transformed,
        "prism.hadamard.block_size: the weights are under a Walsh–Hadamard transform",
    );
}

/// Finds the record of a tensor in a sound file, and changes its type number.
fn retyped(name: TensorName, type_id: u32) -> Vec<u8> {
    let mut bytes = sound(|_| {});
    let name = name.gguf();
    let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
    let n_dims = at + name.len();
    let dims = u32::from_le_bytes(bytes[n_dims..n_dims + 4].try_into().unwrap()) as usize;
    let place = n_dims + 4 + 8 * dims;
    bytes[place..place + 4].copy_from_slice(&type_id.to_le_bytes());
    bytes
}

#[test]
fn rejects_unknown_and_non_ternary_types() {
    let gate = TensorName::Layer(0, wf_formats::LayerTensor::Gate);
    rejected(retyped(gate, 38), "requires tile sizes, which the file does not contain");
    rejected(retyped(gate, 39), "TL2 requires tile sizes, which the file does not contain");
    rejected(retyped(gate, 16), "type 16 (an IQ type) is not supported; supported are F32 (0)");
    rejected(retyped(gate, 200), "type 200 (a type of ik_llama.cpp that is not ternary)");
    rejected(retyped(gate, 7777), "type 7777 (not of any known program");
    rejected(retyped(gate, 42), "fits neither groups of 64");
    rejected(retyped(gate, 0), "more than there are before the next tensor");
    rejected(retyped(TensorName::OutputNorm, 35), "which is ternary");
}

#[test]
fn float_projections_must_be_ternary() {
    let mut sample = Sample::new();
    let gate = TensorName::Layer(1, wf_formats::LayerTensor::Gate);
    let bytes = sample.gguf(Encoding::Float(FloatEncoding::F16), FloatEncoding::F32, |_| {});
    let model = ModelFile::from_bytes("m", bytes.leak(), &OpenOptions::default()).unwrap();
    sample.assert_same(&model);
    // The second half of each row's groups of 32 under another scale: two magnitudes in a group.
    let scale = sample.scales[&gate];
    sample.scales.insert(gate, scale * 2.0);
    let other = sample.tensor_bytes(gate, Encoding::Float(FloatEncoding::F16));
    sample.scales.insert(gate, scale);
    let mut bytes = sample.gguf(Encoding::Float(FloatEncoding::F16), FloatEncoding::F32, |_| {});
    let offset = model.tensor(gate).unwrap().offset as usize;
    for (at, other) in other.chunks(2 * 32).enumerate().filter(|(at, _)| at % 2 == 1) {
        bytes[offset + 2 * 32 * at..][..other.len()].copy_from_slice(other);
    }
    rejected(bytes, "is F16 and not ternary, neither by tensor nor by row or group (row 0 has");
}

#[test]
fn rejects_missing_and_unknown_tensors() {
    let with = |name: &str| {
        let sample = Sample::new();
        let mut writer = GgufWriter::new();
        sample.metadata(&mut writer, "bitnet-b1.58");
        let kind = |name: TensorName| {
            if name.is_linear() { I2_S } else { Encoding::Float(FloatEncoding::F32) }
        };
        for name in TensorName::all(&sample.network) {
            let (rows, cols) = name.shape(&sample.network).unwrap();
            let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
            writer.declare(&name.gguf(), &shape, kind(name)).unwrap();
        }
        writer.declare(name, &[1], Encoding::Float(FloatEncoding::F32)).unwrap();
        let mut body = writer.begin(Vec::new()).unwrap();
        for name in TensorName::all(&sample.network) {
            body.append(&sample.tensor_bytes(name, kind(name))).unwrap();
        }
        body.append(&2f32.to_le_bytes()).unwrap();
        body.finish().unwrap()
    };
    rejected(with("blk.0.attn_sinks.weight"), "is not a tensor of this network, whose layers have");
    // Norms that other families have are part of it, and have the shapes they have there.
    rejected(with("blk.0.attn_q_norm.weight"), "has shape 1 x 1, the network requires 1 x 64");
    rejected(with("blk.0.attn_q.bias"), "ignoring it would change the network");
    rejected(with("rope_freqs.weight"), "rotary divisors: 1 short ones, must be 32: one per pair");
    let open =
        |bytes: Vec<u8>| ModelFile::from_bytes("m", bytes.leak(), &OpenOptions::default()).unwrap();
    assert_eq!(open(with("vision.weight")).extra_tensors(), ["vision.weight"]);
    // llama.cpp's scale of a projection in a tensor of its own multiplies.
    let model = open(with("blk.1.ffn_up.scale"));
    let name = TensorName::Layer(1, wf_formats::LayerTensor::Up);
    let scales = model.scales(model.tensor(name).unwrap()).unwrap();
    assert_eq!(scales.values(), [Sample::new().scales[&name] * 2.0]);
}

#[test]
fn rejects_truncated_files() {
    let bytes = sound(|_| {});
    let last_tensor = bytes.len() - 32;
    for len in (0..2000).chain([bytes.len() / 2, last_tensor - 1]) {
        rejected(bytes[..len].to_vec(), "");
    }
}

#[test]
fn rejects_files_with_other_magic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.bin");
    fs::write(&path, b"PK\x03\x04 a pickle").unwrap();
    assert!(crate::support::open_error(&path).contains("not a model file"));
    fs::write(&path, b"").unwrap();
    assert!(crate::support::open_error(&path).contains("not a model file"));
    assert!(crate::support::open_error(&directory.path().join("absent")).contains("absent"));
    assert!(crate::support::open_error(directory.path()).contains("without model.safetensors"));
}
