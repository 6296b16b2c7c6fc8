//! Files made to exhaust time or memory, which chance would not find.

use std::path::Path;

use wf_formats::{ModelFile, OpenOptions};

use crate::gguf::{self, Twist};
use crate::hugging_face;
use crate::probe::probe;
use crate::sample::{Sample, SampleFile};

fn open_bytes(bytes: Vec<u8>, what: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = SampleFile { bytes, ..SampleFile::new("model.gguf") };
    let sample = Sample { files: vec![file], open: Some("model.gguf") };
    probe(&sample, directory.path(), what).unwrap_err()
}

fn header(tensors: u64, keys: u64) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(keys.to_le_bytes());
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A header of 24 bytes cannot ask for memory by its counts.
#[test]
fn counts_alone_reserve_nothing() {
    for count in [1, 65_536, 1 << 31, u64::MAX] {
        assert!(open_bytes(header(count, 0), "a tensor count").contains("tensor count"));
        assert!(open_bytes(header(0, count), "a metadata count").contains("byte"));
    }
}

/// As many records as are allowed, each looked at a bounded number of times.
#[test]
fn many_tensors_take_linear_time() {
    let count = 65_536;
    let mut bytes = header(count, 0);
    for layer in 0..count {
        text(&mut bytes, &format!("blk.{layer}.attn_q.weight"));
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend((32 * layer).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32) + 32 * count as usize, 0);
    open_bytes(bytes, "65536 tensors");
    let (encoding, type_id) = gguf::encodings()[0];
    let sound = gguf::model(encoding, type_id, &Twist::default());
    many_unused_tensors(&sound);
}

/// The same, behind a model that is sound but for its many tensors in layers that it does not have.
fn many_unused_tensors(sound: &Sample) {
    let file = &sound.files[0];
    let extra = 60_000_u64;
    let mut bytes = file.bytes[..file.header_len].to_vec();
    let tensors = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) + extra;
    bytes[8..16].copy_from_slice(&tensors.to_le_bytes());
    let data = &file.bytes[file.header_len.next_multiple_of(32)..];
    for at in 0..extra {
        text(&mut bytes, &format!("blk.{}.attn_q.weight", at + 1));
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend((data.len() as u64 + 32 * at).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(data);
    bytes.resize(bytes.len() + 32 * extra as usize, 0);
    let directory = tempfile::tempdir().unwrap();
    let file = SampleFile { bytes, ..SampleFile::new("model.gguf") };
    let sample = Sample { files: vec![file], open: Some("model.gguf") };
    // Accepted or rejected: it must be quick.
    let _ = probe(&sample, directory.path(), "60000 unused tensors");
}

/// Two tables of a million empty texts: eight bytes each in the file, many more in memory.
#[test]
fn a_million_empty_tokens_stay_within_the_limit() {
    let mut bytes = header(0, 3);
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        text(&mut bytes, key);
        bytes.extend(9_u32.to_le_bytes());
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend((1_u64 << 20).to_le_bytes());
        bytes.resize(bytes.len() + (8 << 20), 0);
    }
    text(&mut bytes, "tokenizer.ggml.model");
    bytes.extend(8_u32.to_le_bytes());
    text(&mut bytes, "gpt2");
    open_bytes(bytes, "two million empty texts");
}

#[test]
fn rejects_files_that_are_not_models() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("empty.gguf", &b""[..]),
        ("short.gguf", b"GGU"),
        ("text.txt", b"hello"),
        ("only-magic.bin", b"SGLBITNT"),
        ("alone.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = ModelFile::open(&path, &OpenOptions::default()).unwrap_err().to_string();
        let is_named = error.contains(name) || error.contains("config.json");
        assert!(is_named, "{error}");
    }
    for path in [directory.path(), Path::new("no/such/model.gguf")] {
        let error = ModelFile::open(path, &OpenOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}

/// The index of a checkpoint names files: only plain names, and none that a terminal would obey.
#[test]
fn shard_names_cannot_leave_the_directory_or_reach_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    for name in [
        "../other.safetensors",
        "/etc/x.safetensors",
        "\\u001b[2J.safetensors",
        "a\\u0000.safetensors",
    ] {
        let mut sample = hugging_face::sharded();
        let index = sample.files.iter_mut().find(|file| file.name.ends_with("index.json")).unwrap();
        let text = String::from_utf8(index.bytes.clone()).unwrap();
        index.bytes = text.replace("model-00001-of-00002.safetensors", name).into_bytes();
        let error = probe(&sample, directory.path(), name).unwrap_err();
        assert!(error.contains("is not the name of a safetensors file"), "{error}");
    }
}
