//! `.wf` files: content, round trips and damage.

use std::fs;
use std::path::{Path, PathBuf};

use crate::demo::demo;
use crate::support::{I2_S, Sample, open, open_error, read_trits};
use wf_core::{Activation, Rope, RotaryPairs};
use wf_formats::encoding::encode_trits;
use wf_formats::{
    Container, Encoding, FloatEncoding, FormatKind, GenerationDefaults, GgufWriter, IfExists,
    LayerTensor, MetadataValue, ModelFile, Rounding, ScaleUnit, Scales, TableEncoding, Target,
    TensorName, TernaryEncoding, TokenizerSource,
};

fn target(head: impl Into<TableEncoding>) -> Target {
    Target {
        container: Container::Wf,
        head: head.into(),
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Replace,
        threads: 2,
    }
}

/// Converts a GGUF file to `.wf`.
fn converted(directory: &Path, gguf: &[u8]) -> PathBuf {
    let (from, to) = (directory.join("model.gguf"), directory.join("model.wf"));
    fs::write(&from, gguf).unwrap();
    let source = open(&from);
    let head = Target::default_head(&source, Container::Wf).unwrap();
    target(head).write(&source, &to).unwrap();
    to
}

#[test]
fn keeps_every_number_with_every_head_type() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    for head in [FloatEncoding::F32, FloatEncoding::F16, FloatEncoding::BF16] {
        let model = open(&converted(directory.path(), &sample.gguf(I2_S, head, |_| {})));
        sample.assert_same(&model);
        assert_eq!(model.format().kind, FormatKind::Wf);
        let embedding = model.tensor(TensorName::Embedding).unwrap();
        assert_eq!(embedding.encoding, Encoding::Float(head));
        for tensor in model.tensors() {
            assert_eq!(tensor.offset % 4096, 0, "{}", tensor.name);
            model.check(tensor).unwrap();
        }
    }
}

#[test]
fn rows_and_columns_may_have_any_number() {
    let Sample { mut network, info, .. } = Sample::new();
    (network.hidden_len, network.vocab_len) = (36, 11);
    network.update_layers(|attention, dense| {
        (attention.heads, attention.kv_heads, attention.head_dim) = (2, 1, 18);
        dense.ffn_len = 70;
    });
    let sample = Sample::of(network, info);
    let directory = tempfile::tempdir().unwrap();
    let floats = Encoding::Float(FloatEncoding::F32);
    let model =
        open(&converted(directory.path(), &sample.gguf(floats, FloatEncoding::F32, |_| {})));
    sample.assert_same(&model);
    let name = TensorName::Layer(1, LayerTensor::Down);
    let down = model.tensor(name).unwrap();
    // Three strips of sixteen rows, two runs of 64 columns, and the scale.
    assert_eq!((down.rows, down.cols, down.size), (36, 70, 3 * 512 + 4));
    // Padding is zero trits: code 1 in every field.
    let lines = &model.bytes(down)[..3 * 512];
    assert!(lines[2 * 512..].chunks(64).all(|line| line[4 * 4..].iter().all(|&byte| byte == 0x55)));
    assert!(lines.chunks(512).all(|strip| strip[5 * 64..].iter().all(|&byte| byte == 0x55)));
}

/// A GGUF file whose projections have these scales.
fn with_scales(
    sample: &Sample,
    encoding: TernaryEncoding,
    scales: fn(usize, usize) -> Scales,
) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    sample.metadata(&mut writer, &sample.info.architecture);
    let kind = |name: TensorName| {
        if name.is_linear() {
            Encoding::Ternary(encoding)
        } else {
            Encoding::Float(FloatEncoding::F32)
        }
    };
    for name in TensorName::all(&sample.network) {
        let (rows, cols) = name.shape(&sample.network).unwrap();
        let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
        writer.declare(&name.gguf(), &shape, kind(name)).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for name in TensorName::all(&sample.network) {
        let (rows, cols) = name.shape(&sample.network).unwrap();
        let bytes = match sample.trits.get(&name) {
            Some(trits) => {
                encode_trits(encoding, trits, rows, cols, &scales(rows, cols), Rounding::Exact)
                    .unwrap()
            }
            None => sample.tensor_bytes(name, kind(name)),
        };
        body.append(&bytes).unwrap();
    }
    body.finish().unwrap()
}

#[test]
fn keeps_scales_of_rows_and_groups() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let rows: fn(usize, usize) -> Scales =
        |rows, _| Scales::Rows((0..rows).map(|row| (row + 1) as f32 / 512.0).collect());
    fn groups<const LEN: usize>(rows: usize, cols: usize) -> Scales {
        let values = (0..rows * (cols / LEN)).map(|at| (at % 100 + 1) as f32 / 512.0);
        Scales::Groups { len: LEN, values: values.collect() }
    }
    let cases = [
        (TernaryEncoding::IQ2_BN, rows, ScaleUnit::Row),
        (TernaryEncoding::Q2_0, groups::<64>, ScaleUnit::Group(64)),
        (TernaryEncoding::Q2_0_G128, groups::<128>, ScaleUnit::Group(128)),
        (TernaryEncoding::TQ2_0, groups::<256>, ScaleUnit::Group(256)),
    ];
    for (encoding, scales, unit) in cases {
        let model = open(&converted(directory.path(), &with_scales(&sample, encoding, scales)));
        for name in TensorName::all(&sample.network).filter(|name| name.is_linear()) {
            let tensor = model.tensor(name).unwrap();
            let (rows, cols) = (tensor.rows, tensor.cols);
            assert_eq!(model.scales(tensor).unwrap(), scales(rows, cols).simplify(rows), "{name}");
            assert!(read_trits(&model, name) == sample.trits[&name], "{name}");
            let many = cols > 256 || unit != ScaleUnit::Group(256);
            let unit = if many { unit } else { ScaleUnit::Row };
            let Encoding::Ternary(encoding) = tensor.encoding else { panic!("{name}") };
            assert_eq!(
                (encoding.name(), encoding.scale_unit()),
                ("quad lines", Some(unit)),
                "{name}"
            );
        }
    }
}

#[test]
fn keeps_tokenizer_template_and_defaults() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let strings =
        |texts: &[&str]| MetadataValue::Strings(texts.iter().map(|t| (*t).to_owned()).collect());
    // SentencePiece, which cannot be written as `tokenizer.json`.
    let gguf = sample.gguf(I2_S, FloatEncoding::F32, |writer| {
        writer.set("tokenizer.ggml.model", MetadataValue::String("llama".to_owned()));
        writer.set("tokenizer.ggml.tokens", strings(&["<unk>", "<s>", "</s>", "\u{2581}a"]));
        writer.set("tokenizer.ggml.scores", MetadataValue::F32s(vec![0.0, 0.0, 0.0, -1.5]));
        writer.set("tokenizer.ggml.token_type", MetadataValue::I32s(vec![2, 3, 3, 1]));
        writer.set("tokenizer.ggml.bos_token_id", MetadataValue::U32(1));
        writer.set("tokenizer.ggml.eos_token_id", MetadataValue::U32(2));
        writer.set("tokenizer.chat_template", MetadataValue::String("{{ messages }}\n".to_owned()));
        writer.set("general.sampling.temp", MetadataValue::F32(0.5));
        writer.set("general.sampling.top_k", MetadataValue::U32(40));
        writer.set("bitnet-b1.58.hidden_activation", MetadataValue::String("relu2".to_owned()));
    });
    let model = open(&converted(directory.path(), &gguf));
    let source = open(&directory.path().join("model.gguf"));
    assert_eq!(model.tokenizer(), source.tokenizer());
    assert!(matches!(model.tokenizer(), TokenizerSource::Gguf(v) if v.scores.len() == 4));
    assert_eq!(model.chat_template(), Some("{{ messages }}\n"));
    assert_eq!(model.special_token_texts(), source.special_token_texts());
    let expected = GenerationDefaults {
        temperature: Some(0.5),
        top_k: Some(40),
        ..GenerationDefaults::default()
    };
    assert_eq!(model.generation_defaults(), expected);
    let mut info = source.info().clone();
    info.architecture = model.info().architecture.clone();
    assert_eq!((model.network(), model.info()), (source.network(), &info));
}

/// Writes the demo with different numbers of threads.
#[test]
fn output_is_reproducible() {
    let directory = tempfile::tempdir().unwrap();
    let write = |threads| {
        let path = directory.path().join(format!("{threads}.wf"));
        Target { threads, ..target(FloatEncoding::BF16) }.write(&demo(), &path).unwrap();
        path
    };
    let (one, five) = (write(1), write(5));
    assert!(fs::read(&one).unwrap() == fs::read(&five).unwrap());
    let digest = open(&one).format().digest.clone().unwrap();
    assert_eq!((digest.len(), Some(digest)), (64, open(&five).format().digest.clone()));
    let other = directory.path().join("other.wf");
    Target { name: Some("other".to_owned()), ..target(FloatEncoding::BF16) }
        .write(&demo(), &other)
        .unwrap();
    assert_ne!(open(&one).format().digest, open(&other).format().digest);
    assert_eq!(open(&one).info().block_diffusion, demo().info().block_diffusion);
}

fn sample_file(directory: &Path) -> (PathBuf, Vec<u8>) {
    let path = converted(directory, &Sample::new().gguf(I2_S, FloatEncoding::F16, |_| {}));
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// Opens and reads a file, and returns its error.
fn fault(path: &Path, bytes: &[u8]) -> Option<String> {
    fs::write(path, bytes).unwrap();
    let check = |model: ModelFile| model.tensors().iter().try_for_each(|t| model.check(t));
    let found = ModelFile::open(path, &wf_formats::OpenOptions::default()).and_then(check);
    found.err().map(|error| error.to_string())
}

#[test]
fn finds_every_flipped_bit_and_names_its_tensor() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = sample_file(directory.path());
    let places: Vec<(String, usize, usize)> = open(&path)
        .tensors()
        .iter()
        .map(|t| (t.source_name.clone(), t.offset as usize, (t.offset + t.size) as usize))
        .collect();
    let header_end = 64 + u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
    let mut tensors_hit = 0;
    for at in (0..bytes.len()).step_by(1009).chain(0..64) {
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 1 << (at % 8);
        let fault = fault(&path, &spoiled);
        if let Some((name, ..)) = places.iter().find(|(_, start, end)| (*start..*end).contains(&at))
        {
            let message = fault.unwrap_or_else(|| panic!("byte {at} of {name} was not missed"));
            assert!(
                message.contains(&format!("\"{name}\"")) && message.contains("damaged"),
                "{message}"
            );
            tensors_hit += 1;
        } else if at < header_end {
            assert!(fault.is_some(), "byte {at} of the header was not missed");
        }
    }
    assert!(tensors_hit > 300, "{tensors_hit}");
}

#[test]
fn finds_swapped_tensors() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut bytes) = sample_file(directory.path());
    let model = open(&path);
    let at = |tensor| {
        let t = model.tensor(TensorName::Layer(0, tensor)).unwrap();
        t.offset as usize..(t.offset + t.size) as usize
    };
    let (gate, up) = (at(LayerTensor::Gate), at(LayerTensor::Up));
    let gates = bytes[gate.clone()].to_vec();
    bytes.copy_within(up.clone(), gate.start);
    bytes[up].copy_from_slice(&gates);
    drop(model);
    let message = fault(&path, &bytes).unwrap();
    assert!(
        message.contains("\"blk.0.ffn_gate.weight\"") && message.contains("damaged"),
        "{message}"
    );
    // Reading such a tensor fails, too.
    let model = open(&path);
    let gate = model.tensor(TensorName::Layer(0, LayerTensor::Gate)).unwrap();
    assert!(model.read(gate).unwrap_err().to_string().contains("damaged"));
    let out = directory.path().join("copy.wf");
    let rejected = target(FloatEncoding::F16).write(&model, &out).unwrap_err().to_string();
    assert!(rejected.contains("blk.0.ffn_gate.weight") && !out.exists(), "{rejected}");
}

#[test]
fn rejects_other_versions_and_lengths() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = sample_file(directory.path());
    type Change = fn(&mut Vec<u8>);
    let rejected = |change: Change| {
        let mut spoiled = bytes.clone();
        change(&mut spoiled);
        fs::write(&path, &spoiled).unwrap();
        open_error(&path)
    };
    let cases: [(Change, &str); 9] = [
        (
            |b| b[8] = 3,
            "byte 8: version: 3, this program reads up to 2: a newer version wrote the file",
        ),
        (|b| b[8] = 0, "byte 8: version: 0, this program reads up to 2"),
        // The digest covers the version.
        (|b| b[8] = 1, "byte 32: digest"),
        (|b| b[12] = 7, "byte 12: layout: 7, this program reads 1: its trits are in another order"),
        (|b| b.truncate(b.len() - 1), "truncated"),
        (|b| b.truncate(70), "truncated"),
        (|b| b.truncate(20), "needs 8 bytes, 4 remain"),
        (|b| b.push(0), "extended"),
        (|b| b[32] ^= 1, "byte 32: digest"),
    ];
    for (change, expected) in cases {
        let message = rejected(change);
        assert!(message.contains(expected), "{message}");
    }
}

/// A model small enough for a file in the repository.
fn tiny() -> Sample {
    let Sample { mut network, info, .. } = Sample::named("llama");
    (network.vocab_len, network.hidden_len) = (16, 64);
    network.layers.truncate(1);
    network.update_layers(|attention, dense| {
        (attention.heads, attention.kv_heads, attention.head_dim) = (2, 1, 32);
        (attention.sub_norm, dense.sub_norm) = (None, None);
        attention.rope = Some(Rope { pairs: RotaryPairs::Adjacent, ..Rope::default() });
        (dense.ffn_len, dense.activation) = (64, Activation::Silu);
    });
    Sample::of(network, info)
}

/// A file of version 1, which has other checksums, from the last program that wrote such files.
const VERSION_1: &[u8] = include_bytes!("../../../../tests/data/wf/version-1.wf");

#[test]
fn reads_version_1_and_finds_every_flipped_bit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.wf");
    assert_eq!(fault(&path, VERSION_1), None);
    let model = open(&path);
    assert_eq!(model.format().version, Some(1));
    let gguf = tiny().gguf(Encoding::Ternary(TernaryEncoding::IQ2_BN), FloatEncoding::F16, |_| {});
    let new = open(&converted(directory.path(), &gguf));
    assert_eq!(new.format().version, Some(2));
    for (old, new_info) in model.tensors().iter().zip(new.tensors()) {
        assert_eq!(model.bytes(old), new.bytes(new_info), "{}", old.name);
    }
    let mut missed = 0;
    for info in model.tensors() {
        for at in (info.offset..info.offset + info.size).step_by(13) {
            let mut spoiled = VERSION_1.to_vec();
            spoiled[at as usize] ^= 1 << (at % 8);
            let message = fault(&path, &spoiled).unwrap_or_default();
            let named = message.contains(&format!("\"{}\"", info.source_name));
            missed += usize::from(!named || !message.contains("damaged"));
        }
    }
    assert_eq!(missed, 0);
}
