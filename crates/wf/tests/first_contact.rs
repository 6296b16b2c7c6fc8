//! Tests of the first contact with `wf`: quick start, help and its examples, suggestions for mistakes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::program::clean;

const WF: &str = env!("CARGO_BIN_EXE_wf");

fn wf(args: &[&str]) -> Output {
    clean(WF).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the message of a command that must fail with `code`.
fn fails(args: &[&str], code: i32) -> String {
    let output = wf(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

#[test]
fn without_arguments_it_shows_three_commands_to_try() {
    let output = wf(&[]);
    assert!(output.status.success());
    let said = text(&output.stdout);
    let tries: Vec<_> = said.lines().filter(|line| line.starts_with("  wf ")).collect();
    assert_eq!(tries.len(), 3, "{said}");
    assert!(said.lines().count() <= 10 && said.lines().all(|line| line.len() <= 100), "{said}");
}

#[test]
fn the_version_has_build_and_instruction_set() {
    let said = text(&wf(&["--version"]).stdout);
    assert!(said.starts_with(concat!("wf ", env!("CARGO_PKG_VERSION"), " (")), "{said}");
    assert!(said.contains("commit ") || said.contains("development build"), "{said}");
    let doctor = text(&wf(&["doctor", "--json"]).stdout);
    let isa = said.trim().trim_end_matches(')').rsplit(", ").next().unwrap();
    assert!(doctor.contains(&format!("\"kernel in use\",\"found\":\"{isa}\"")), "{isa}: {doctor}");
}

#[test]
fn typing_errors_get_suggestions() {
    for (args, meant) in [
        (&["run", "hi", "--temprature", "1"][..], "--temperature"),
        (&["chat", "--ulr", "x"], "--url"),
        (&["serve", "--prot", "80"], "--port"),
        (&["chatt"], "chat"),
        (&["inpsect"], "inspect"),
        (&["hf:owner/repo"], "wf chat hf:owner/repo"),
        (&[WF, "hello"], "is a model, not a command"),
    ] {
        let message = fails(args, 2);
        assert!(message.contains(meant), "{args:?}: {message}");
    }
}

#[test]
fn a_missing_model_gets_suggestions() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("bitnet-2b.gguf"), "").unwrap();
    for command in [&["run"][..], &["chat"], &["serve", "--port", "0"], &["inspect"]] {
        let model = at("bitnet-2.gguf");
        let prompt = if command == ["run"] { &["hi"][..] } else { &[] };
        let message = fails(&[command, &[&model], prompt].concat(), 1);
        assert!(message.contains("did you mean"), "{message}");
        assert!(message.contains("bitnet-2b.gguf?"), "{message}");
        // A server may have logged something before.
        assert!(message.lines().last().unwrap().starts_with("error: no model at "), "{message}");
    }
    let message = fails(&["chat", "microsoft/bitnet-b1.58-2B-4T"], 1);
    assert!(message.contains("hf:microsoft/bitnet-b1.58-2B-4T"), "{message}");
}

#[test]
fn a_taken_port_gets_a_suggestion() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let message = fails(&["serve", "--port", &port.to_string()], 1);
    let free = message.split("use --port ").nth(1).unwrap();
    let free: String = free.chars().take_while(char::is_ascii_digit).collect();
    let free: u16 = free.parse().unwrap();
    assert!(free == 0 || free > port, "{message}");
}

#[test]
fn an_unsupported_instruction_set_lists_supported_ones() {
    let foreign = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
    let message = fails(&["chat", "--isa", foreign], 1);
    assert!(message.contains("available are scalar"), "{message}");
}

#[test]
fn every_command_has_a_manual_page() {
    let page = text(&wf(&["man"]).stdout);
    assert!(page.contains(".TH wf 1") && page.contains("SUBCOMMANDS"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    assert!(wf(&["man", dir.to_str().unwrap()]).status.success());
    let pages: BTreeSet<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in commands() {
        let name = format!("{}.1", command.join("-"));
        assert!(pages.contains(&name), "{name} is not in {pages:?}");
    }
    let page = fs::read_to_string(dir.join("wf-eval-kv.1")).unwrap();
    assert!(page.contains("window") && page.contains("WF_WINDOW"), "{page}");
}

/// Returns every command as a list of words.
fn commands() -> Vec<Vec<String>> {
    let mut found = vec![vec!["wf".to_owned()]];
    let mut next = 0;
    while let Some(command) = found.get(next).cloned() {
        next += 1;
        let help = help(&command);
        let Some(list) = help.split("Commands:\n").nth(1) else { continue };
        for line in list.lines().take_while(|line| line.starts_with("  ")) {
            // Descriptions continue on lines with more indentation.
            let name = line[2..].split(' ').next().unwrap();
            if !name.is_empty() && name != "help" {
                found.push([&command[..], &[name.to_owned()]].concat());
            }
        }
    }
    found
}

fn help(command: &[String]) -> String {
    let output = clean(WF).args(&command[1..]).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}");
    text(&output.stdout)
}

/// Returns the examples of a help text, without their descriptions.
fn examples(help: &str) -> Vec<String> {
    let Some(list) = help.split("Examples:\n").nth(1) else { return Vec::new() };
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.starts_with("   "));
    lines.map(|line| line.trim().split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_has_examples() {
    for command in commands() {
        let help = help(&command);
        let has_subcommands = help.contains("Commands:\n") && command.len() > 1;
        assert!(has_subcommands || !examples(&help).is_empty(), "{command:?} has no examples");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{command:?}: {help}");
    }
}

/// Creates the files that the examples use.
fn stage(folder: &Path) {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf");
    for name in ["bitnet-2b.gguf", "small.gguf", "large.gguf"] {
        fs::copy(&demo, folder.join(name)).unwrap();
    }
    fs::write(folder.join("wiki.txt"), "Once upon a time, there was a little girl. ".repeat(3))
        .unwrap();
    fs::write(folder.join("keys.txt"), "open sesame\n").unwrap();
    let tasks = r#"{"prompt": "The cat sat on the", "choices": ["mat", "sun"], "answer": 0}"#;
    fs::write(folder.join("tasks.jsonl"), tasks).unwrap();
    let request = r#"{"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x", "max_tokens": 2}}"#;
    fs::write(folder.join("requests.jsonl"), request).unwrap();
}

#[test]
fn examples_run_as_they_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    let folder_of_wf = Path::new(WF).parent().unwrap().display();
    let shell_line = |line: &str| format!("PATH='{folder_of_wf}':$PATH; {line}");
    // Examples that need minutes, a network, another model or a pager are only parsed.
    let only_parsed = |example: &str| {
        [
            "wf bench",
            "wf load",
            "wf validate",
            "wf health",
            "wf convert",
            "wf verify",
            "bonsai",
            "--url",
            "man -l",
        ]
        .iter()
        .any(|word| example.contains(word))
    };
    let mut ran = 0;
    for command in commands() {
        for example in examples(&help(&command)) {
            let mut shell = clean("sh");
            shell.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path());
            shell.env("XDG_STATE_HOME", folder.path());
            if example.starts_with("wf serve") {
                let line = shell_line(&format!("exec {example} --port 0"));
                serves(shell.arg("-c").arg(line));
            } else {
                let line = match only_parsed(&example) {
                    true => format!("{} --help", example.split(" | ").next().unwrap()),
                    false => example.clone(),
                };
                let output = shell.arg("-c").arg(shell_line(&line)).output().unwrap();
                assert!(output.status.success(), "{example}: {}", text(&output.stderr));
            }
            ran += 1;
        }
    }
    assert!(ran > 30, "only {ran} examples were found");
}

/// Starts a server, and ends it once it is ready.
fn serves(command: &mut Command) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains(" on http://"), "{line}");
}
