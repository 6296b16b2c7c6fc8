//! Models with ternary tables and scales per group, on the command line.

use std::path::Path;

use serde_json::Value;

use crate::program::command;

fn model(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/weight_only");
    root.join(name).to_str().unwrap().to_owned()
}

fn output(args: &[&str]) -> Result<String, String> {
    let output = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&output(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))).unwrap()
}

#[test]
fn inspect_shows_the_scaling_the_codes_and_the_scales() {
    let found = json(&["inspect", &model("ternary-yarn.gguf"), "--json"]);
    let config = &found["config"];
    assert_eq!(config["rope_scaling"], "YaRN by 8, from 64 tokens");
    assert_eq!(config["activations"], "int16");
    assert_eq!(config["scales"], "one per 128 columns");
    assert_eq!(found["sound"], true);
}

#[test]
fn conversions_keep_trits_in_tables_and_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let source = model("ternary-yarn.gguf");
    for (out, flags) in [
        ("copy.wf", &[][..]),
        ("copy.gguf", &[]),
        ("packed.gguf", &["--encoding", "ptq1_0"]),
        ("floats.gguf", &["--encoding", "pq2_0", "--head", "f16"]),
    ] {
        let out = at(out);
        let converted = json(&[&["convert", &source, &out, "--json"], flags].concat());
        assert_eq!(converted["verified"]["different"], Value::Array(Vec::new()), "{out}");
        output(&["verify", &source, &out]).unwrap();
    }
    let error = output(&["convert", &source, &at("rows.gguf"), "--encoding", "iq2_bn"]);
    assert!(error.unwrap_err().contains("one scale per group"), "groups do not fit rows");
    let error = output(&["convert", &source, &at("signs.gguf"), "--encoding", "q1_0"]);
    assert!(error.unwrap_err().contains("Q1_0 stores -1 and 1 only"), "there are zeros");
}

#[test]
fn they_generate_with_every_kind_of_activations() {
    for name in ["ternary-yarn.gguf", "binary-tied.gguf"] {
        let run = |more: &[&str]| {
            let args = ["run", &model(name), "ab", "--raw", "--max-tokens", "8", "--json"];
            json(&[&args, more].concat())
        };
        let default = run(&[]);
        assert_eq!(run(&["--activations", "int16", "--threads", "1"])["text"], default["text"]);
        run(&["--activations", "int8"]);
        for codes in ["int8-group", "f32"] {
            let text =
                |threads| run(&["--activations", codes, "--threads", threads])["text"].clone();
            assert_eq!(text("1"), text("2"), "{codes}");
        }
        // Sixteen bits are as close to floats as these tokens need.
        let exact = run(&["--activations", "f32", "--kv", "f32"]);
        assert_eq!(run(&["--kv", "f32"])["text"], exact["text"]);
    }
    let error = output(&["run", &model("binary-tied.gguf"), "ab", "--activations", "int4"]);
    assert!(error.unwrap_err().contains("must be int8, int8-group, int16 or f32"));
    let flags = ["--activations", "int8-group", "--layout", "five-trits"];
    let error = output(&[&["run", &model("binary-tied.gguf"), "ab"], &flags[..]].concat());
    assert!(error.unwrap_err().contains("use layout quad-lines, or other activations"));
    let error = output(&["run", &model("binary-tied.gguf"), "ab", "--head", "scan"]);
    assert!(error.unwrap_err().contains("requires an output head of floats"));
}

#[test]
fn published_models_are_listed() {
    let list = json(&["models", "--json"]);
    let bonsai = list.as_array().unwrap().iter().find(|model| model["name"] == "bonsai-1.7b");
    assert_eq!(bonsai.unwrap()["licence"], "Apache 2.0");
    let download = serde_json::json!({"gigabytes": 0.46, "computed": false});
    assert_eq!(bonsai.unwrap()["download"], download);
    assert!(output(&["models"]).unwrap().contains("hf:microsoft/bitnet-b1.58-2B-4T-gguf"));
}
