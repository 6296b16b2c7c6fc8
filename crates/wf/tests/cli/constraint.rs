//! Tests of structured output.

use super::*;

/// Runs `wf run` with flags and an environment variable.
fn run(flags: &[&str], variable: Option<(&str, &str)>) -> Output {
    let mut command = command(&["run", "Tell me a story", "-n", "80"]);
    command.args(flags).envs(variable).output().expect("wf runs")
}

fn text(flags: &[&str], variable: Option<(&str, &str)>) -> String {
    let output = run(flags, variable);
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
}

fn error_of(flags: &[&str], code: i32) -> String {
    failed(&run(flags, None), code)
}

const SCHEMA: &str = r#"{"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}},
                         "required": ["age"], "additionalProperties": false}"#;
const GRAMMAR: &str = "root ::= \"a \" animal\nanimal ::= \"cat\" | \"dog\"";

#[test]
fn constraints_can_be_arguments_or_files() {
    let dir = tempfile::tempdir().unwrap();
    for (flag, constraint) in [("--json-schema", SCHEMA), ("--grammar", GRAMMAR)] {
        let file = dir.path().join("constraint");
        std::fs::write(&file, constraint).unwrap();
        let reply = text(&[flag, constraint], None);
        assert_eq!(text(&[flag, file.to_str().unwrap()], None), reply);
        match flag {
            "--grammar" => assert!(reply == "a cat" || reply == "a dog", "{reply}"),
            _ => {
                let value: Value = serde_json::from_str(&reply).unwrap();
                assert!(value["age"].as_i64().unwrap() <= 99, "{reply}");
            }
        }
    }
    let reply = text(&["--regex", "yes|no"], None);
    assert!(reply == "yes" || reply == "no", "{reply}");
}

#[test]
fn a_flag_overrides_the_variables_of_other_constraints() {
    let variable = Some(("WF_REGEX", "yes|no"));
    assert!(text(&["--grammar", GRAMMAR], variable).starts_with("a "));
    assert!(!text(&[], variable).contains(' '));
}

#[test]
fn errors_name_the_flag() {
    let message = error_of(&["--regex", "a", "--grammar", GRAMMAR], 2);
    assert!(
        message.contains("--json-schema, --regex and --grammar cannot be used together"),
        "{message}"
    );
    for (flag, constraint, words) in [
        ("--regex", "(a", "--regex: "),
        ("--json-schema", "{\"type\": 3}", "--json-schema: "),
        ("--json-schema", "{", "--json-schema: EOF"),
        ("--json-schema", "no-such-file", "no-such-file"),
        ("--grammar", "start: missing", "--grammar: "),
    ] {
        let message = error_of(&[flag, constraint], 1);
        assert!(message.contains(words), "{message}");
    }
}
