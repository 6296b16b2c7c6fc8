//! SGLBITNT files: what is rejected, and how a packed head is treated.

use std::fs;
use std::path::PathBuf;

use wf_formats::{
    Container, FloatEncoding, LayerTensor, ModelFile, OpenOptions, Target, TensorName,
};

use crate::support::{I2_S, Sample, open, open_error};

/// The bytes of a sound file, and where to put changed ones.
fn sound() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let gguf = directory.path().join("model.gguf");
    fs::write(&gguf, Sample::new().gguf(I2_S, FloatEncoding::F32, |_| {})).unwrap();
    let path = directory.path().join("model.bin");
    Target::new(Container::Sglbitnt, FloatEncoding::F32).write(&open(&gguf), &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    (directory, path, bytes)
}

/// Where a piece of text ends in a file.
fn after(bytes: &[u8], text: &str) -> usize {
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    at.unwrap() + text.len()
}

fn refuse(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let (_directory, path, mut bytes) = sound();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    open_error(&path)
}

const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";

#[test]
fn rejects_invalid_structure() {
    let cases: [(&str, &str); 6] = [
        (&refuse(|b| b[8] = 2), "version: 2, must be 1"),
        (&refuse(|b| b[12..16].fill(255)), "config: 4294967295 bytes long, at most 1048576"),
        (&refuse(|b| b.truncate(b.len() - 1)), "needs"),
        (&refuse(|b| b.push(0)), "1 bytes after the last tensor"),
        (
            &refuse(|b| {
                let at = after(b, QUERY);
                b[at] = 4;
            }),
            "dtype 4, must be between 0 and 3",
        ),
        (
            &refuse(|b| {
                let at = after(b, QUERY) + 4;
                b[at] = 5;
            }),
            "5 dimensions, must be between 1 and 4",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("model.bin"), "{message}");
    }
}

#[test]
fn rejects_missing_and_invalid_scales() {
    // dtype, n_dims, two dims, has_scale, scale
    let no_number = refuse(|b| {
        let at = after(b, QUERY) + 20;
        b[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    assert!(no_number.contains("scale is NaN"), "{no_number}");
    let none = refuse(|b| {
        let at = after(b, QUERY) + 16;
        b[at..at + 4].fill(0);
        b.drain(at + 4..at + 8);
    });
    assert!(none.contains("is packed but has no scale"), "{none}");
}

#[test]
fn ignores_and_reports_a_packed_output_head() {
    let (_directory, path, mut bytes) = sound();
    let json_len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let count = 16 + json_len;
    let tensors = u32::from_le_bytes(bytes[count..count + 4].try_into().unwrap());
    bytes[count..count + 4].copy_from_slice(&(tensors + 1).to_le_bytes());
    let name = "lm_head.weight";
    bytes.extend((name.len() as u32).to_le_bytes());
    bytes.extend(name.as_bytes());
    for word in [0, 2, 300, 64, 1] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(1f32.to_le_bytes());
    bytes.extend((300u64 * 64).to_le_bytes());
    bytes.resize(bytes.len() + 300 * 64, 0);
    fs::write(&path, bytes).unwrap();
    let model = open(&path);
    assert!(model.network().head.tied && model.tensor(TensorName::Output).is_none());
    assert_eq!(model.extra_tensors(), [name]);
    assert!(model.format().decisions.iter().any(|why| why.contains("lm_head")));
}

#[test]
fn rejects_invalid_codes_with_their_position() {
    let (_directory, path, mut bytes) = sound();
    let data = after(&bytes, QUERY) + 24 + 8;
    bytes[data + 70] = 0b1100_0000;
    fs::write(&path, bytes).unwrap();
    let model = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let info = model.tensor(TensorName::Layer(0, LayerTensor::Query)).unwrap();
    let mut trits = vec![0; info.rows * info.cols];
    let error = model.trits(info, 0..info.rows, &mut trits).unwrap_err().to_string();
    assert!(
        error.contains(QUERY) && error.contains("row 1") && error.contains("code 3"),
        "{error}"
    );
}
