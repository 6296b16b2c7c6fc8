//! The built-in model from every format into every other: the same bytes as straight from the source.
//!
//! A `.wf` file holds the tokenizer as its source has it. So there are two straight ways to one: from
//! GGUF, and from a checkpoint with a `tokenizer.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::demo::demo;
use crate::support::open;
use wf_formats::{
    Container, FloatEncoding, IfExists, ModelFile, Rounding, Target, TernaryEncoding,
};

fn formats() -> Vec<Container> {
    let holds_zeros = |e: &&TernaryEncoding| e.flag().is_some() && e.has_zero();
    let gguf = TernaryEncoding::ALL.iter().filter(holds_zeros);
    let gguf = gguf.map(|encoding| Container::Gguf(*encoding));
    gguf.chain([Container::Packed, Container::Sglbitnt, Container::Wf]).collect()
}

/// Returns `true` for formats with tokenizer files.
fn has_tokenizer_json(format: Container) -> bool {
    matches!(format, Container::Packed | Container::Sglbitnt)
}

fn write(source: &ModelFile, container: Container, directory: &Path) -> PathBuf {
    let out = match container {
        Container::Gguf(_) => directory.join("model.gguf"),
        Container::Packed => directory.join("packed"),
        Container::Sglbitnt => directory.join("model.bin"),
        Container::Wf => directory.join("model.wf"),
    };
    let target = Target {
        container,
        head: FloatEncoding::BF16.into(),
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Fail,
        // The output does not depend on it.
        threads: 1 + directory.as_os_str().len() % 4,
    };
    fs::create_dir(directory).unwrap();
    target.write(source, &out).unwrap();
    out
}

/// Every file under a directory, by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read(&path).unwrap(),
            ));
        }
    }
    found.sort();
    found
}

#[test]
fn every_pair_of_formats_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: String| directory.path().join(name);
    let demo = demo();
    let formats = &formats()[..];
    let straight: Vec<PathBuf> = formats
        .iter()
        .enumerate()
        .map(|(to, format)| write(&demo, *format, &at(format!("{to}"))))
        .collect();
    let packed = formats.iter().position(|format| *format == Container::Packed).unwrap();
    write(&open(&straight[packed]), Container::Wf, &at("json".to_owned()));
    let expected = |from: usize, to: usize| {
        let by_json = formats[to] == Container::Wf && has_tokenizer_json(formats[from]);
        files(&at(if by_json { "json".to_owned() } else { format!("{to}") }))
    };
    let halves = [(0..formats.len() / 2), (formats.len() / 2..formats.len())];
    thread::scope(|scope| {
        for half in halves {
            let (straight, at, expected) = (&straight, &at, &expected);
            scope.spawn(move || {
                for from in half {
                    let source = open(&straight[from]);
                    for (to, format) in formats.iter().enumerate() {
                        let there = at(format!("{from}-{to}"));
                        write(&source, *format, &there);
                        for (ours, theirs) in files(&there).iter().zip(expected(from, to)) {
                            let pair = format!("{:?} to {format:?}: {}", formats[from], ours.0);
                            assert_eq!(ours.0, theirs.0, "{pair}");
                            let differs = ours.1.iter().zip(&theirs.1).position(|(a, b)| a != b);
                            assert_eq!((ours.1.len(), differs), (theirs.1.len(), None), "{pair}");
                        }
                        fs::remove_dir_all(&there).unwrap();
                    }
                }
            });
        }
    });
}
