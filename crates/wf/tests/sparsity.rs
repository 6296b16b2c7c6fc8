//! Sparse activations from the command line: a calibration is written, used, and refused for another model.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::program::command;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

fn wf(args: &[&str]) -> Output {
    command(args).output().expect("wf runs")
}

fn error_of(args: &[&str]) -> String {
    let output = wf(args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_calibration_is_written_used_and_refused_for_another_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (text, file, plot) = (at("text.txt"), at("sparsity.json"), at("plot.svg"));
    let stories = std::fs::read_to_string(data("demo-stories.txt")).expect("a text");
    let short: String = stories.chars().take(400).collect();
    std::fs::write(&text, short).expect("written");

    let args =
        ["eval", "sparsity", "--json", "--calibrate", &text, "--output", &file, "--plot", &plot];
    let output = wf(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let settings = report["settings"].as_array().expect("a list");
    let row = |name: &str| settings.iter().find(|row| row["setting"] == name).expect("measured");
    let number = |row: &Value, key: &str| row[key].as_f64().expect("a number");
    assert_eq!(number(row("off"), "loss"), 0.0);
    // Rows of neurons have exact zeros beside.
    let zeros = number(row("topk=0.6"), "zeros_share");
    assert!((0.4..0.75).contains(&zeros), "{zeros}");
    assert!(number(row("topk=0.4"), "zeros_share") > zeros);
    assert!(number(row("threshold"), "zeros_share") > 0.3);
    assert!(number(row("adaptive"), "loss") <= 0.02);
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("topk=0.6"));

    let with = |mode: &str| format!("activation-sparsity={mode}={file}");
    let (threshold, adaptive) = (with("threshold"), with("adaptive"));
    let args = ["eval", "compare", "--json", "--a", &threshold, "--b", &adaptive, &text];
    let output = wf(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (side, setting) in [("a", "threshold"), ("b", "adaptive")] {
        let difference = number(&compared[side], "perplexity") - number(row(setting), "perplexity");
        assert!(difference.abs() < 1e-9, "{setting}: {difference}");
    }

    let other = data("weight_only/ternary-yarn.gguf").display().to_string();
    let mode = format!("adaptive={file}");
    let error = error_of(&["eval", "logits", &other, "--ids", "1", "--activation-sparsity", &mode]);
    assert!(error.contains("was made for another model: it has 12 layers of"), "{error}");
}

#[test]
fn wrong_modes_are_errors_that_name_the_range() {
    for (mode, words) in
        [("topk=0", "0.05 to 1"), ("most", "threshold=FILE"), ("adaptive=none", "none")]
    {
        let error = error_of(&["run", "Hello", "--activation-sparsity", mode]);
        assert!(error.contains(words), "{mode}: {error}");
    }
}
