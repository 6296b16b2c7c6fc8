//! Reads a model with limits of time and memory, and checks its error message.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wf_formats::Error;

use crate::counting_alloc::peak_of;
use crate::read::read_everything;
use crate::sample::Sample;

const TIME_LIMIT: Duration = Duration::from_secs(10);
const MEMORY_LIMIT: usize = 64 << 20;

/// Writes a model's files into a directory and returns the path to open.
pub(crate) fn write(sample: &Sample, directory: &Path) -> PathBuf {
    for file in &sample.files {
        let path = directory.join(&file.name);
        // A new file and not a rewritten one, which some file systems push to the disk at once.
        let _ = std::fs::remove_file(&path);
        std::fs::write(path, &file.bytes).unwrap();
    }
    sample.open.map_or_else(|| directory.to_owned(), |name| directory.join(name))
}

/// Reads everything. Panics if the error message or the content is invalid.
pub(crate) fn probe(sample: &Sample, directory: &Path, what: &str) -> Result<(), String> {
    let path = write(sample, directory);
    let size: usize = sample.files.iter().map(|file| file.bytes.len()).sum();
    let started = Instant::now();
    let read = || catch_unwind(AssertUnwindSafe(|| read_everything(&path)));
    let (result, peak) = peak_of(read);
    let took = started.elapsed();
    let Ok(result) = result else { panic!("panicked on {what}") };
    assert!(took < TIME_LIMIT, "took {took:?} on {what}");
    assert!(peak <= size + MEMORY_LIMIT, "held {peak} bytes for a file of {size} on {what}");
    result.map_err(|error| {
        check_message(&error, directory, what);
        error.to_string()
    })
}

/// Checks that a message names the file and the position, and is one printable line.
fn check_message(error: &Error, directory: &Path, what: &str) {
    let text = error.to_string();
    let shown: String = text.chars().take(300).collect();
    let context = format!("message {shown:?} on {what}");
    assert!(text.starts_with(&directory.display().to_string()), "no file: {context}");
    assert!(!text.chars().any(char::is_control), "control characters: {context}");
    assert!(text.chars().count() < 1000, "too long: {context}");
    let structural = matches!(error, Error::Malformed { .. } | Error::Tensor { .. });
    if structural {
        let has_place =
            text.split("byte ").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        assert!(has_place, "no place: {context}");
    }
}
