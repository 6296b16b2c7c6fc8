//! Checks documents against the code: messages that they quote, and files that they link to.

use std::fs;
use std::path::{Path, PathBuf};

/// Stands for names and numbers in a message.
const VARIABLE: char = '…';

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|ending| ending == extension) {
            found.push(path);
        }
    }
}

/// Returns a source file with string literals that span lines on one line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

#[test]
fn messages_in_the_troubleshooting_page_are_messages_of_the_program() {
    let mut paths = Vec::new();
    files(&root().join("crates"), "rs", &mut paths);
    let sources: Vec<String> = paths
        .iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .map(|path| joined(&fs::read_to_string(path).unwrap()))
        .collect();
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let titles = page.lines().filter_map(|line| line.strip_prefix("### "));
    let messages: Vec<&str> =
        titles.map(|title| title.strip_prefix('`').unwrap().strip_suffix('`').unwrap()).collect();
    assert!(messages.len() >= 20, "{} messages", messages.len());
    for message in messages {
        // The words between variables, all in one file.
        let words: Vec<&str> = message
            .split(VARIABLE)
            .map(|part| part.trim_matches([' ', ':', ';', ',']))
            .filter(|part| part.len() > 1)
            .collect();
        let is_there = |source: &String| words.iter().all(|word| source.contains(word));
        assert!(sources.iter().any(is_there), "not a message of the program: {message}");
    }
}

#[test]
fn documents_link_to_files_that_exist() {
    let mut paths = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut paths);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = link.0.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = path.parent().unwrap().join(target);
            assert!(file.exists(), "{}: no {target}", path.display());
        }
    }
}
