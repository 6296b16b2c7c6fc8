//! Tests of models on the Hub: downloaded once, converted once, used offline.

#[path = "../../hub/tests/hub/server.rs"]
mod server;

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use server::{Server, Shop};

use crate::program::command;

const MODEL: &str = "hf:maker/model";

/// A checkpoint of this repository with random master weights.
fn source() -> String {
    format!("{}/../../tests/data/random/auto-online-gqa-untied", env!("CARGO_MANIFEST_DIR"))
}

fn shop() -> Shop {
    let files = ["config.json", "generation_config.json", "model.safetensors"].map(|name| {
        let content = fs::read(Path::new(&source()).join(name)).unwrap();
        (name.to_owned(), (content, name.ends_with(".safetensors")))
    });
    Shop { files: files.into(), has_ranges: true, ..Shop::default() }
}

fn start(cache: &Path, endpoint: &str, args: &[&str]) -> Child {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("XDG_CACHE_HOME", cache).env("HF_ENDPOINT", endpoint);
    if endpoint.is_empty() {
        command.env("HF_HUB_OFFLINE", "1").env_remove("HF_ENDPOINT");
    }
    command.spawn().unwrap()
}

fn wf(cache: &Path, endpoint: &str, args: &[&str]) -> Output {
    start(cache, endpoint, args).wait_with_output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn logits(model: &str) -> [&str; 7] {
    ["eval", "logits", model, "--ids", "1,5,9", "--all", "--json"]
}

#[test]
fn a_model_on_the_hub_runs_as_the_same_files_here() {
    let server = Server::start(shop());
    let cache = tempfile::tempdir().unwrap();
    let at = |endpoint: &str, args: &[&str]| wf(cache.path(), endpoint, args);
    let expected = json(&at("", &logits(&source())));
    assert_eq!(json(&at(&server.endpoint, &logits(MODEL))), expected);
    let kept = json(&at("", &["cache", "list", "--check", "--json"]));
    let [model] = kept["models"].as_array().unwrap().as_slice() else { panic!("{kept}") };
    assert!(model["source"].as_str().unwrap().starts_with("hf:maker/model at 0123"), "{kept}");
    assert_eq!((&model["sound"], &model["current"]), (&Value::Bool(true), &Value::Bool(true)));
    // Offline.
    assert_eq!(json(&at("", &logits(MODEL))), expected);
    let removed = json(&at("", &["cache", "prune", "--json"]));
    assert_eq!(removed["models"], 0, "current conversions are kept");
    assert_eq!(json(&at("", &["cache", "prune", "--all", "--json"]))["models"], 1);
    assert_eq!(json(&at("", &logits(MODEL))), expected, "made again");
    let out = cache.path().join("copy.gguf");
    json(&at("", &["convert", MODEL, out.to_str().unwrap(), "--json"]));
    assert_eq!(json(&at("", &logits(out.to_str().unwrap()))), expected);
}

#[test]
fn four_processes_at_once_convert_once() {
    let server = Server::start(shop());
    let cache = tempfile::tempdir().unwrap();
    let children: Vec<Child> =
        (0..4).map(|_| start(cache.path(), &server.endpoint, &logits(MODEL))).collect();
    let outputs: Vec<Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let answers: Vec<Value> = outputs.iter().map(json).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let said = |output: &&Output| String::from_utf8_lossy(&output.stderr).contains("converting");
    assert_eq!(outputs.iter().filter(said).count(), 1);
    let seen = server.seen();
    let large = seen.iter().filter(|seen| seen.path.starts_with("/store/")).count();
    assert_eq!(large, 1, "and fetch once");
    assert!(seen.iter().all(|seen| seen.start == 0 && !seen.has_token), "{seen:?}");
}

#[test]
fn unavailable_models_are_errors() {
    let server = Server::start(shop());
    let cache = tempfile::tempdir().unwrap();
    let error = |endpoint: &str, model: &str| {
        let output = wf(cache.path(), endpoint, &logits(model));
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(error("", MODEL).contains("HF_HUB_OFFLINE"));
    assert!(error(&server.endpoint, "hf:maker/none").contains("model or revision does not exist"));
    assert!(error(&server.endpoint, "hf:model").contains("hf:owner/repo[@revision][:file]"));
    // A closed port.
    let message = error("http://127.0.0.1:9", MODEL);
    assert!(message.contains("http://127.0.0.1:9/api/models/maker/model"), "{message}");
}
