//! The dependency diagram of ARCHITECTURE.md, as a test.

use std::collections::BTreeMap;
use std::process::Command;

/// Who may use whom, among our own crates.
const ARROWS: [(&str, &[&str]); 9] = [
    ("wf-kernels", &[]),
    ("wf-formats", &[]),
    ("wf-text", &[]),
    ("wf-client", &[]),
    ("wf-hub", &[]),
    ("wf-model", &["wf-formats", "wf-kernels"]),
    // `formats` is for open.rs alone, which fetches the tokenizer out of a file.
    ("wf-engine", &["wf-formats", "wf-model", "wf-text"]),
    ("wf-server", &["wf-client", "wf-engine", "wf-text"]),
    (
        "wf",
        &[
            "wf-client",
            "wf-engine",
            "wf-formats",
            "wf-hub",
            "wf-kernels",
            "wf-model",
            "wf-server",
            "wf-text",
        ],
    ),
];

#[test]
fn dependencies_point_down() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let ours = package["dependencies"].as_array().expect("dependencies").iter();
        let mut ours: Vec<&str> = ours
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|name| name.starts_with("wf-"))
            .collect();
        ours.sort_unstable();
        found.insert(package["name"].as_str().expect("a name"), ours);
    }
    let allowed: BTreeMap<&str, Vec<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.to_vec())).collect();
    assert_eq!(found, allowed);
}

#[test]
fn kernels_have_no_outside_dependencies() {
    let manifest = include_str!("../../kernels/Cargo.toml");
    let (_, rest) = manifest.split_once("[dependencies]").expect("a dependencies table");
    let table = rest.split("\n[").next().expect("a table");
    assert_eq!(table.trim(), "");
}
