//! Shared code of the targets: writes bytes to files and reads models.

mod demo;
#[path = "../../crates/formats/tests/hostile/read.rs"]
mod read;
#[path = "../../crates/formats/tests/hostile/sign.rs"]
mod sign;
mod text;

pub use demo::{demo_app, demo_tokenizer};
pub use text::use_tokenizer;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Writes files into a scratch directory, opens the first of them as a model, and uses everything in
/// it. An error is fine; a panic is a finding.
pub fn read_model(files: &[(&str, &[u8])]) {
    let directory = scratch();
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes).expect("the scratch directory can be written");
    }
    let Some((first, _)) = files.first() else { return };
    if let Err(error) = read::read_everything(&directory.join(first)) {
        let message = error.to_string();
        assert!(message.starts_with(&directory.display().to_string()), "no file: {message}");
        assert!(!message.chars().any(char::is_control), "control characters: {message:?}");
    }
}

/// Returns a `.wf` file with a correct digest.
pub fn signed(version: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    sign::signed(version, header, data)
}

/// Returns a directory for this process, because several fuzzers may run at once.
fn scratch() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        // In memory if possible: a target writes thousands of files per second.
        let shared_memory = Path::new("/dev/shm");
        let parent =
            if shared_memory.is_dir() { shared_memory.to_owned() } else { std::env::temp_dir() };
        let directory = parent.join(format!("wf-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for temporary files");
        directory
    })
}
