//! The prefix cache on disk: a model that is opened again finds its pages, and nothing but its own.

use std::fs;
use std::path::{Path, PathBuf};

use wf_core::ActivationCodes;
use wf_engine::{
    DiskCacheOptions, Frontend, GenerationRequest, ModelSource, PAGE_LEN, PromptInput, RunOptions,
    TextEvent, TokenId, open_model,
};
use wf_model::KvDtype;

/// Tokens of the prompt: three full pages, and a few more.
const PROMPT_LEN: usize = 3 * PAGE_LEN + 9;

/// A change of the bytes of a file.
type Damage = fn(&mut Vec<u8>);

fn options(dir: &Path) -> RunOptions {
    fn report(message: &str) {
        panic!("{message}");
    }
    let disk_cache = DiskCacheOptions { dir: dir.to_owned(), max_bytes: 64 << 20, report };
    RunOptions {
        threads: 2,
        context_len: Some(256),
        max_batch_tokens: 64,
        disk_cache: Some(disk_cache),
        ..RunOptions::default()
    }
}

fn open(options: &RunOptions) -> Frontend {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wf/assets/demo.gguf");
    open_model(&ModelSource::Path(path.into()), options, &mut |_| {}).unwrap().frontend
}

fn prompt(seed: u32) -> Vec<TokenId> {
    (0..PROMPT_LEN as u32).map(|at| 300 + (seed + at * 37) % 1000).collect()
}

/// Returns the completion of a prompt and the number of cached tokens.
fn complete(frontend: &Frontend, seed: u32, salt: u64) -> (Vec<TokenId>, usize) {
    let mut stream = frontend
        .generate(GenerationRequest {
            max_tokens: Some(2 * PAGE_LEN),
            ignore_eos: true,
            cache_salt: salt,
            ..GenerationRequest::new(PromptInput::Tokens(prompt(seed)))
        })
        .unwrap();
    let mut cached = None;
    for event in stream.by_ref() {
        if let TextEvent::Done(finish) = event.unwrap() {
            cached = Some(finish.timings.cached_tokens);
        }
    }
    (stream.ids().to_vec(), cached.unwrap())
}

/// Opens the model, completes a prompt and closes it: all pages are on disk then.
fn session(options: &RunOptions, salt: u64) -> (Vec<TokenId>, usize) {
    let frontend = open(options);
    let completed = complete(&frontend, 0, salt);
    frontend.close();
    completed
}

fn pages(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "page")).collect();
    pages.sort();
    pages
}

#[test]
fn a_model_that_is_opened_again_continues_where_it_was_with_the_same_tokens() {
    for kv in [KvDtype::Bf16, KvDtype::Int8] {
        let dir = tempfile::tempdir().unwrap();
        let options = RunOptions { kv, ..options(dir.path()) };
        let (expected, cached) = session(&RunOptions { disk_cache: None, ..options.clone() }, 0);
        assert_eq!((expected.len(), cached), (2 * PAGE_LEN, 0));
        assert_eq!(session(&options, 0), (expected.clone(), 0), "{kv}");
        // Prompt and completion but for the last token: 105 + 63 tokens.
        assert_eq!(pages(dir.path()).len(), 5, "{kv}");
        assert_eq!(session(&options, 0), (expected.clone(), 3 * PAGE_LEN), "{kv}");
        // Other threads, chunks and instruction sets give and take the same pages.
        let other = RunOptions { threads: 1, max_batch_tokens: 16, ..options.clone() };
        assert_eq!(session(&other, 0), (expected, 3 * PAGE_LEN), "{kv}");
    }
}

#[test]
fn pages_of_other_settings_and_callers_are_misses() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let (expected, _) = session(&options, 7);
    assert_eq!(session(&options, 8), (expected.clone(), 0), "another caller");
    for other in [
        RunOptions { kv: KvDtype::F32, ..options.clone() },
        RunOptions { activations: Some(ActivationCodes::Int16), ..options.clone() },
        RunOptions { context_len: Some(224), ..options.clone() },
    ] {
        assert_eq!(session(&other, 7).1, 0);
    }
    assert_eq!(session(&options, 7), (expected, 3 * PAGE_LEN));
}

#[test]
fn damaged_pages_are_misses_and_are_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let (expected, _) = session(&options, 0);
    let damages: [(&str, Damage); 4] = [
        ("a flipped bit", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 16;
        }),
        ("a cut file", |bytes| bytes.truncate(bytes.len() - 1)),
        ("an empty file", Vec::clear),
        ("zeros, as after a power failure", |bytes| bytes.fill(0)),
    ];
    for (damage, apply) in damages {
        for path in pages(dir.path()) {
            let mut bytes = fs::read(&path).unwrap();
            apply(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(session(&options, 0), (expected.clone(), 0), "{damage}");
        assert_eq!(session(&options, 0), (expected.clone(), 3 * PAGE_LEN), "after {damage}");
    }
    // Files under each other's names.
    let files = pages(dir.path());
    let contents: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, bytes) in files.iter().zip(contents.iter().cycle().skip(1)) {
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(session(&options, 0), (expected, 0), "renamed files");
}

#[test]
fn requests_at_once_share_pages_from_disk_and_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let alone = open(&options);
    let expected: Vec<_> = (0..8).map(|seed| complete(&alone, seed, 0).0).collect();
    alone.close();
    // Room for one context: sequences are preempted, and pages leave memory.
    let frontend = open(&options);
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let frontend = &frontend;
        let threads: Vec<_> = (0..16)
            .map(|at| scope.spawn(move || (at % 8, complete(frontend, at % 8, 0))))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_by_key(|(seed, _)| *seed);
    for (seed, (ids, cached)) in &found {
        assert_eq!(*ids, expected[*seed as usize], "prompt {seed}");
        // Pages that left memory while later ones were read are computed again.
        assert!(cached.is_multiple_of(PAGE_LEN) && *cached <= 3 * PAGE_LEN, "{cached} of {seed}");
    }
    let stats = frontend.engine().stats().disk;
    assert!(stats.hits >= 8 * 3 && stats.bytes > 0, "{stats:?}");
    frontend.engine().flush_cache();
    frontend.close();
    assert!(pages(dir.path()).is_empty(), "flushing empties the directory, too");
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wf/assets/demo.gguf");
    let opened = open_model(&ModelSource::Path(path.into()), &options(&file), &mut |_| {});
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("for the prefix cache") && error.contains("file"), "{error}");
}
