//! Several models in one server.

use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;

use super::server::{Server, command, fails, start};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");

/// Copies the demo model to files with these names.
fn copies(directory: &Path, names: &[&str]) -> Vec<PathBuf> {
    let copy = |name: &&str| {
        let path = directory.join(name);
        std::fs::copy(DEMO, &path).unwrap();
        path
    };
    names.iter().map(copy).collect()
}

fn serve(models: &[PathBuf], flags: &[&str]) -> std::process::Command {
    let mut command = command(&["--port", "0", "--threads", "1"]);
    command.args(models).args(flags);
    command
}

fn json(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Returns the model and the text of a completion.
fn complete(server: &Server, model: &str) -> (String, String) {
    let body = format!(
        r#"{{"model": "{model}", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}}"#
    );
    let answer = json(&server.post("/v1/completions", "", &body));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (text(&answer["model"]), text(&answer["choices"][0]["text"]))
}

fn in_memory(server: &Server) -> Vec<String> {
    let models = json(&server.get("/api/ps", ""));
    let models = models["models"].as_array().unwrap().iter();
    models.map(|model| model["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn models_are_loaded_on_demand_within_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let models = copies(directory.path(), &["a.gguf", "b.gguf"]);
    let server = start(&mut serve(&models, &["--kv-memory", "4M", "--memory", "40M"]));
    assert!(server.greeting.starts_with("a, b on http://"), "{}", server.greeting);
    assert!(server.greeting.contains("1 model more on demand"), "{}", server.greeting);
    assert_eq!(in_memory(&server), ["a"]);
    let (name, expected) = complete(&server, "");
    assert_eq!(name, "a");
    // More requests than fit into memory at once, for both models.
    thread::scope(|scope| {
        let names = ["b", "a", "b", "a"];
        let answers = names.map(|name| scope.spawn(|| complete(&server, name)));
        for (name, answer) in names.into_iter().zip(answers) {
            assert_eq!(answer.join().unwrap(), (name.to_owned(), expected.clone()));
        }
    });
    assert_eq!(in_memory(&server).len(), 1, "40 MiB hold one model");
    std::fs::remove_file(&models[1]).unwrap();
    complete(&server, "a");
    let answer = server.post("/v1/completions", "", r#"{"model": "b", "prompt": "Once"}"#);
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.contains("model b cannot be loaded"), "{answer}");
    assert_eq!(complete(&server, "a").1, expected, "the server goes on");
}

#[test]
fn names_are_given_in_order_and_files_are_aliases() {
    let directory = tempfile::tempdir().unwrap();
    let models = copies(directory.path(), &["a.gguf", "b.gguf"]);
    let names = ["--served-model-name", "first,second", "--kv-memory", "4M"];
    let server = start(&mut serve(&models, &names));
    assert_eq!(complete(&server, "second").0, "second");
    assert_eq!(complete(&server, "b").0, "second");
    assert_eq!(complete(&server, &models[0].display().to_string()).0, "first");
    assert_eq!(in_memory(&server), ["first", "second"], "both fit");
}

#[test]
fn mistakes_are_errors_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let models = copies(directory.path(), &["a.gguf", "b.gguf"]);
    for (flags, words) in [
        (&["--served-model-name", "x"][..], "1 names for 2 models"),
        (&["--draft", DEMO], "--draft is for one model"),
        (&["--memory", "1M"], "--memory is 0.00 GB"),
    ] {
        let (_, message) = fails(&mut serve(&models, flags));
        assert!(message.contains(words), "{flags:?}: {message}");
    }
    let missing = [models[0].clone(), directory.path().join("c.gguf")];
    let (code, message) = fails(&mut serve(&missing, &[]));
    assert!(code != 0 && message.contains("c.gguf"), "{message}");
}
