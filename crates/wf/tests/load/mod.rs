//! Tests of `wf load` and `wf validate`, with a scripted server that makes errors and with the real one.

mod real;
mod scripted;

use std::process::Output;

use scripted::{Fault, Scripted};
use serde_json::Value;

use crate::program::command;

fn wf(args: &[&str]) -> Output {
    command(args).output().expect("wf runs")
}

/// Runs a checked load of 40 requests on a server with `fault`. Returns the exit code and all output.
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
    for words in ["40 ok, 0 failed", "40 of 40 responses equal those sent alone", "as received"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn every_fault_is_reported() {
    for (fault, words) in [
        (Fault::OtherToken, "token_ids from token 2"),
        (Fault::OtherLogprob, "logprobs from token 1"),
        (Fault::OtherText, "): text"),
        (Fault::OtherFinish, "): finish_reason"),
        (Fault::OtherUsage, "): usage"),
        (Fault::LostEvent, "token_ids, but the usage has"),
        (Fault::DoubleEvent, "token_ids, but the usage has"),
        (Fault::DoubleFinish, "after the finish_reason"),
        (Fault::NoDone, "without [DONE]"),
        (Fault::AfterDone, "after [DONE]"),
        (Fault::Reset, "connection lost"),
        (Fault::Status500, "status 500: it broke"),
        (Fault::Miscount, "prompt tokens: "),
    ] {
        let (code, said) = load(fault, &["--share-streamed", "1"]);
        assert_eq!(code, Some(1), "{fault:?}: {said}");
        assert!(said.contains(words), "{fault:?}: {said}");
    }
}

#[test]
fn requests_to_a_busy_server_are_retried() {
    let (code, said) = load(Fault::Busy, &["--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&report["ok"], &report["failed"]), (&40.into(), &0.into()));
    assert_eq!(report["refused_429"], scripted::REFUSALS);
}

#[test]
fn disconnecting_clients_are_no_failures() {
    let (code, said) = load(Fault::None, &["--cancel", "0.5", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert!(report["hung_up"].as_u64() > Some(0), "{said}");
    assert_eq!(report["check"]["different"], 0);
}

#[test]
fn slow_clients_get_the_same_response() {
    let slow = ["--stall", "0.3", "--stall-for", "0.01", "--dribble", "0.3", "--slow-send", "0.3"];
    let few = ["--requests", "12", "--max-tokens", "4"];
    let (code, said) = load(Fault::None, &[&slow[..], &few].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("12 of 12 responses"), "{said}");
}

#[test]
fn held_streams_and_rates_are_reported() {
    let (code, said) = load(Fault::None, &["--hold", "30"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("30 requests, all streams open before any was read"), "{said}");
    let (code, said) = load(Fault::None, &["--rate", "400"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("400 per second"), "{said}");
}

#[test]
fn prompts_can_come_from_a_file() {
    let server = Scripted::start(Fault::None);
    let directory = tempfile::tempdir().unwrap();
    let (path, image) = (directory.path().join("prompts"), directory.path().join("load.svg"));
    std::fs::write(&path, "one prompt\n\nand another\n").unwrap();
    let (path, image) = (path.to_str().unwrap(), image.to_str().unwrap());
    let args = ["load", "--url", server.url(), "--prompts", path, "--plot", image, "--json"];
    let output = wf(&[&args[..], &["--check", "--requests", "5"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["check"]["prompts"], &report["ok"]), (&2.into(), &5.into()));
    assert!(std::fs::read_to_string(image).unwrap().contains("Time to first token"));
    std::fs::write(path, "\n").unwrap();
    assert_eq!(wf(&args).status.code(), Some(2));
}

#[test]
fn errors_of_connections_name_the_address() {
    for command in ["load", "validate"] {
        let output = wf(&[command, "--url", "http://127.0.0.1:1"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("cannot connect to 127.0.0.1:1"), "{message}");
    }
}

#[test]
fn fractions_of_faults_are_at_most_one() {
    let output = wf(&["load", "--cancel", "0.7", "--stall", "0.7"]);
    assert_eq!(output.status.code(), Some(2));
}
