//! Compiles C programs with the header and the library, and compares their tokens with those of the engine in Rust.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wf::local::{Keyword, LocalModel};
use wf_engine::{GenerationRequest, PromptInput};

/// The folder of the shared library, which is built with its tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.into_iter().find(|folder| folder.join("libwrinklefree.so").exists());
    found.expect("libwrinklefree.so beside the tests").to_owned()
}

/// Compiles a C program with the header and the library, runs it, and returns its output.
fn run(source: &Path) -> String {
    let (package, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(source)
        .arg(format!("-I{}", package.join("include").display()))
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lwrinklefree")
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_in_c_gets_the_tokens_of_the_command_line() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
    let found: Value = serde_json::from_str(&run(&source)).unwrap();

    let keyword =
        |name: &str, value: &str| Keyword { name: name.to_owned(), values: vec![value.to_owned()] };
    let model = LocalModel::open(None, &[keyword("threads", "1")]).unwrap();
    let request = model.completion(&[keyword("max_tokens", "16")]).unwrap();
    let input = PromptInput::Text("Once upon a time".to_owned());
    let mut stream = model.frontend().generate(GenerationRequest { input, ..request }).unwrap();
    while stream.next().is_some() {}
    assert_eq!(found["ids"], serde_json::json!(stream.ids()));
    assert_eq!(found["prompt_ids"], serde_json::json!(stream.prompt_ids()));
}

#[test]
fn the_example_of_the_documentation_answers() {
    let page = include_str!("../../../docs/c.md");
    let (_, example) = page.split_once("```c\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("hello.c");
    std::fs::write(&source, example).unwrap();
    assert_ne!(run(&source), "");
}
