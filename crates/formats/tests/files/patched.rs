//! Recorded GGUF files with a few bytes replaced.

use std::path::Path;

use wf_formats::{ModelFile, OpenOptions};

/// Reads a file of `tests/data`.
pub(crate) fn data(path: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    std::fs::read(folder.join(path)).unwrap()
}

pub(crate) fn open(bytes: &[u8]) -> Result<ModelFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("patched.gguf");
    std::fs::write(&path, bytes).unwrap();
    ModelFile::open(&path, &OpenOptions::default()).map_err(|error| error.to_string())
}

/// Returns the position after a text in the file.
pub(crate) fn after(bytes: &[u8], text: &str) -> usize {
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    at.unwrap_or_else(|| panic!("{text} is not in the file")) + text.len()
}

/// Replaces the value of a key, which comes after its type.
pub(crate) fn set(bytes: &mut [u8], key: &str, value: &[u8]) {
    let at = after(bytes, key) + 4;
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Replaces a text by another of its length.
pub(crate) fn rename(bytes: &mut [u8], found: &str, other: &str) {
    assert_eq!(found.len(), other.len());
    let end = after(bytes, found);
    bytes[end - other.len()..end].copy_from_slice(other.as_bytes());
}

#[track_caller]
pub(crate) fn rejected(bytes: &[u8], expected: &str) {
    let error = open(bytes).expect_err(expected);
    assert!(error.contains(expected), "{error}\nmust contain {expected}");
}
