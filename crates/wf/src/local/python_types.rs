//! Writes `_options.py` of the Python package, the types of its keyword arguments, from the flags.
//!
//! `WF_WRITE=1 cargo test -p wf --lib python_types` writes the file; without the variable, the test compares it.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::ArgAction;
use clap::{Arg, Args};

use super::keywords::{command, names_of};
use super::{CompletionArgs, ModelArgs, VectorArgs};

const HEADER: &str = r#""""Types of the keyword arguments. Names, defaults, checks and meaning are those of the flags of ``wf``.

Written by ``WF_WRITE=1 cargo test -p wf --lib python_types``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Union
"#;

/// Options whose type in Python is not that of the flag.
const TYPES: [(&str, &str); 5] = [
    ("kv_memory", "Union[int, str]"),
    ("logit_bias", "Mapping[int, float]"),
    ("stop", "Union[str, Sequence[str]]"),
    ("json_schema", "Union[str, Mapping[str, Any]]"),
    ("thinking", "Union[int, str]"),
];

fn type_of(arg: &Arg) -> &'static str {
    if let Some((_, python)) = TYPES.iter().find(|(name, _)| arg.get_id() == name) {
        return python;
    }
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return "bool";
    }
    // Settings of decoding modes and sampling parameters are checked as text or as floats; their placeholders tell.
    let placeholder = arg.get_value_names().and_then(|names| names.first());
    match placeholder.map(|name| name.as_str()) {
        Some("N" | "K") => return "int",
        Some("X") => return "float",
        _ => {}
    }
    let parsed = arg.get_value_parser().type_id();
    if parsed == TypeId::of::<f32>() || parsed == TypeId::of::<f64>() {
        "float"
    } else if parsed == TypeId::of::<usize>() || parsed == TypeId::of::<u32>() {
        "int"
    } else if parsed == TypeId::of::<PathBuf>() {
        "Union[str, os.PathLike[str]]"
    } else {
        "str"
    }
}

fn class<T: Args>(name: &str, doc: &str) -> String {
    let mut text = format!("\n\nclass {name}(TypedDict, total=False):\n    \"\"\"{doc}\"\"\"\n\n");
    let mut heading = None;
    for arg in command::<T>().get_arguments() {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let title = heading.unwrap_or("Other");
            let _ = writeln!(text, "    # {}", title.split(" (").next().unwrap_or(title));
        }
        for name in names_of(arg) {
            let _ = writeln!(text, "    {name}: {}", type_of(arg));
        }
    }
    text
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "WF_WRITE is for whoever changes the flags, not for users"
)]
fn types_of_the_python_package_have_all_options() {
    let text = [
        HEADER.to_owned(),
        class::<ModelArgs>(
            "Settings",
            "Settings of a model: ``wf run --help`` describes each as a flag.",
        ),
        class::<CompletionArgs>(
            "Sampling",
            "Options of a completion. It is greedy unless a temperature is set.",
        ),
        class::<VectorArgs>("EmbeddingOptions", "Options of an embedding."),
    ]
    .concat();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/python/wrinklefree/_options.py");
    if std::env::var_os("WF_WRITE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(
        written == text,
        "_options.py is not that of the flags: run WF_WRITE=1 cargo test -p wf --lib python_types"
    );
}
