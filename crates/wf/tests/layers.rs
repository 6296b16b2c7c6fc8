//! Tests the dependency diagram of ARCHITECTURE.md and its reading path, and that the modules of each crate have no
//! cycles.

mod modules;
mod reading_path;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use modules::{Edge, Modules, cycles};

/// Crates of the workspace that each crate may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("wf-core", &[]),
    ("wf-kernels", &["wf-core"]),
    ("wf-formats", &["wf-core"]),
    ("wf-text", &["wf-core"]),
    ("wf-api", &["wf-core"]),
    ("wf-hub", &[]),
    ("wf-model", &["wf-core", "wf-formats", "wf-kernels"]),
    // `formats` is for open.rs alone, which fetches the tokenizer out of a file.
    ("wf-engine", &["wf-core", "wf-formats", "wf-model", "wf-text"]),
    ("wf-server", &["wf-api", "wf-core", "wf-engine", "wf-text"]),
    (
        "wf-lab",
        &["wf-api", "wf-core", "wf-engine", "wf-formats", "wf-kernels", "wf-model", "wf-text"],
    ),
    (
        "wf",
        &[
            "wf-api",
            "wf-core",
            "wf-engine",
            "wf-formats",
            "wf-hub",
            "wf-kernels",
            "wf-lab",
            "wf-model",
            "wf-server",
            "wf-text",
        ],
    ),
    // On top of `wf`, so that options, names of models and messages are those of the commands.
    ("wf-python", &["wf", "wf-engine"]),
    ("wf-c", &["wf", "wf-engine"]),
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
            .filter(|name| *name == "wf" || name.starts_with("wf-"))
            .collect();
        ours.sort_unstable();
        found.insert(package["name"].as_str().expect("a name"), ours);
    }
    let allowed: BTreeMap<&str, Vec<&str>> =
        ARROWS.iter().map(|(name, uses)| (*name, uses.to_vec())).collect();
    assert_eq!(found, allowed);
}

/// Rustix makes the system calls for huge pages and thread affinity; everything else is arithmetic.
#[test]
fn kernels_depend_on_rustix_only() {
    let manifest = include_str!("../../kernels/Cargo.toml");
    let tables = manifest.split("\n[").filter(|table| {
        table
            .split(']')
            .next()
            .is_some_and(|name| name.ends_with("dependencies") && !name.contains("dev-"))
    });
    let dependencies = tables.flat_map(str::lines).filter(|line| line.contains('='));
    let dependencies: Vec<&str> =
        dependencies.filter(|line| !line.starts_with("target.")).collect();
    assert_eq!(dependencies, ["wf-core.workspace = true", "rustix.workspace = true"]);
}

#[test]
fn modules_of_a_crate_have_no_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let mut problems = Vec::new();
    for (name, _) in ARROWS {
        let name = name.trim_start_matches("wf-");
        for root in ["src/lib.rs", "src/main.rs"].map(|root| crates.join(name).join(root)) {
            if root.exists() {
                problems.extend(cycle_problems(name, &Modules::read(&root)));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "modules depend on each other in cycles:\n{}",
        problems.join("\n")
    );
}

/// Crates with one test program name its files in `tests/main.rs`; a file that is not named would never run.
#[test]
fn every_file_of_tests_is_part_of_a_test_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a readable file");
    let mut merged = 0;
    for (name, _) in ARROWS {
        let root = crates.join(name.trim_start_matches("wf-"));
        let main = root.join("tests/main.rs");
        if !main.exists() {
            continue;
        }
        merged += 1;
        let (main, manifest) = (read(&main), read(&root.join("Cargo.toml")));
        for entry in std::fs::read_dir(root.join("tests")).expect("a directory") {
            let path = entry.expect("an entry").path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8");
            if path.extension().is_some_and(|extension| extension == "rs") && file != "main" {
                let is_program = manifest.contains(&format!("[[test]]\nname = \"{file}\"\n"));
                let is_module = main.contains(&format!("mod {file};\n"));
                assert!(is_program || is_module, "{} is not in main.rs", path.display());
            }
        }
    }
    assert_eq!(merged, 5);
}

fn cycle_problems(crate_name: &str, modules: &Modules) -> Vec<String> {
    let describe = |cycle: &Vec<Edge>| {
        let edges: Vec<String> = cycle.iter().map(|edge| modules.describe(edge)).collect();
        format!("  crate {crate_name}:\n{}", edges.join("\n"))
    };
    cycles(modules.edges()).iter().map(describe).collect()
}
