//! `wf load` and `wf validate`: the real binary, against a scripted server that makes mistakes and
//! against the real one with the demo model.

mod real;
mod scripted;

use std::process::{Command, Output, Stdio};

use scripted::{Fault, Scripted};
use serde_json::Value;

fn wf(args: &[&str]) -> Output {
    command(args).output().expect("wf runs")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wf"));
    command.args(args).stdin(Stdio::null());
    // What the developer has set must not decide a test.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WF_")) {
        command.env_remove(name);
    }
    command
}

/// A checked load of 40 requests on a server that makes `fault`: the exit code and all that is said.
fn load(fault: Fault, more: &[&str]) -> (Option<i32>, String) {
    let server = Scripted::start(fault);
    let base = ["load", "--url", server.url(), "--check", "--logprobs", "--requests", "40"];
    let output = wf(&[&base[..], &["--distinct", "10", "--max-tokens", "16"], more].concat());
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("UTF-8"))
}

#[test]
fn a_faultless_server_passes() {
    let (code, said) = load(Fault::None, &[]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["40 ok, 0 failed", "40 of 40 replies are the ones alone", "as seen here"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn every_fault_is_found_and_named() {
    for (fault, words) in [
        (Fault::OtherToken, "token_ids from token 2 on"),
        (Fault::OtherLogprob, "logprobs from token 1 on"),
        (Fault::OtherText, "): text"),
        (Fault::OtherFinish, "): finish_reason"),
        (Fault::OtherUsage, "): usage"),
        (Fault::LostEvent, "token_ids came, the usage says"),
        (Fault::DoubleEvent, "token_ids came, the usage says"),
        (Fault::DoubleFinish, "after its finish_reason"),
        (Fault::NoDone, "without [DONE]"),
        (Fault::AfterDone, "after [DONE]"),
        (Fault::Reset, "the connection broke"),
        (Fault::Status500, "answered 500: it broke"),
        (Fault::Miscount, "prompt tokens: "),
    ] {
        let (code, said) = load(fault, &["--share-streamed", "1"]);
        assert_eq!(code, Some(1), "{fault:?}: {said}");
        assert!(said.contains(words), "{fault:?}: {said}");
    }
}

#[test]
fn a_busy_server_is_asked_again() {
    let (code, said) = load(Fault::Busy, &["--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&report["ok"], &report["failed"]), (&40.into(), &0.into()));
    assert_eq!(report["refused_429"], scripted::REFUSALS);
}

#[test]
fn clients_that_hang_up_are_no_failures() {
    let (code, said) = load(Fault::None, &["--cancel", "0.5", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert!(report["hung_up"].as_u64() > Some(0), "{said}");
    assert_eq!(report["check"]["different"], 0);
}

#[test]
fn slow_clients_get_the_same_reply() {
    let slow = ["--stall", "0.3", "--stall-for", "0.01", "--dribble", "0.3", "--slow-send", "0.3"];
    let few = ["--requests", "12", "--max-tokens", "4"];
    let (code, said) = load(Fault::None, &[&slow[..], &few].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("12 of 12 replies"), "{said}");
}

#[test]
fn held_streams_and_rates_are_told() {
    let (code, said) = load(Fault::None, &["--hold", "30"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("30 requests, all open before any was read"), "{said}");
    let (code, said) = load(Fault::None, &["--rate", "400"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("400 new ones a second"), "{said}");
}

#[test]
fn prompts_can_come_from_a_file() {
    let server = Scripted::start(Fault::None);
    let directory = tempfile::tempdir().unwrap();
    let (path, picture) = (directory.path().join("prompts"), directory.path().join("load.svg"));
    std::fs::write(&path, "one prompt\n\nand another\n").unwrap();
    let (path, picture) = (path.to_str().unwrap(), picture.to_str().unwrap());
    let args = ["load", "--url", server.url(), "--prompts", path, "--plot", picture, "--json"];
    let output = wf(&[&args[..], &["--check", "--requests", "5"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["check"]["prompts"], &report["ok"]), (&2.into(), &5.into()));
    assert!(std::fs::read_to_string(picture).unwrap().contains("Time to the first token"));
    std::fs::write(path, "\n").unwrap();
    assert_eq!(wf(&args).status.code(), Some(2));
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_address() {
    for command in ["load", "validate"] {
        let output = wf(&[command, "--url", "http://127.0.0.1:1"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("no connection to 127.0.0.1:1"), "{message}");
    }
}

#[test]
fn shares_of_trouble_are_at_most_one() {
    let output = wf(&["load", "--cancel", "0.7", "--stall", "0.7"]);
    assert_eq!(output.status.code(), Some(2));
}
