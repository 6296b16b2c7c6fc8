//! `--draft MODEL`, with the demo model as its own draft.

use super::*;

/// Generates a story with or without a draft model. Returns the output or the error.
fn run(draft: Option<&Path>, more: &[&str]) -> Result<Value, String> {
    let mut command = command(&["run", "Tell me a story about a dragon.", "-n", "24", "--json"]);
    command.args(more);
    if let Some(draft) = draft {
        command.arg("--draft").arg(draft);
    }
    let output = command.output().expect("wf runs");
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("JSON")),
        false => Err(String::from_utf8(output.stderr).expect("UTF-8")),
    }
}

#[test]
fn drafts_do_not_change_the_response() {
    let warm = ["--seed", "7", "--temperature", "0.8"];
    let plain = run(None, &warm).expect("a reply");
    let drafted = run(Some(&demo_path()), &warm).expect("a reply");
    assert_eq!(drafted["ids"], plain["ids"]);
    let timings = &drafted["timings"];
    assert_eq!(timings["accepted_tokens"], timings["drafted_tokens"], "{drafted}");
    assert!(timings["drafted_tokens"].as_u64() > Some(10), "{drafted}");
}

#[test]
fn an_unused_draft_model_is_an_error() {
    let refused =
        run(Some(&demo_path()), &["--decode", "lookup"]).expect_err("a flag without a meaning");
    assert!(refused.contains("--draft is for --decode drafted, drafted+lookup, auto"), "{refused}");
}

#[test]
fn a_different_tokenizer_is_an_error() {
    let mut bytes = std::fs::read(demo_path()).expect("the demo");
    let at = bytes.windows(8).position(|text| text == b"|<MASK>|").expect("its mask");
    bytes[at..at + 8].copy_from_slice(b"|<MOSK>|");
    let other = tempfile::Builder::new().suffix(".gguf").tempfile().expect("a file");
    std::fs::write(other.path(), bytes).expect("it is written");
    let refused = run(Some(other.path()), &[]).expect_err("it cannot guess for the demo");
    let words = r#"token 3 is "|<MOSK>|" in its tokenizer, but "|<MASK>|" in that of the model"#;
    assert!(refused.contains("cannot be used as a draft model"), "{refused}");
    assert!(refused.contains(words), "{refused}");
    let absent =
        run(Some(Path::new("no-such-model.gguf")), &[]).expect_err("there is no such file");
    assert!(absent.contains("no-such-model.gguf"), "{absent}");
}
