//! Tells the program which commit it is built from.

use std::path::Path;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "it is how cargo tells a build")]
fn main() {
    // Only what is released: a build for tests would be made anew after each commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = is_release.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten();
    let build = match (commit, is_release) {
        (Some(commit), _) => format!("commit {commit}"),
        (None, true) => "commit unknown".to_owned(),
        (None, false) => "development build".to_owned(),
    };
    println!("cargo::rustc-env=WF_BUILD={build}");
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and every other branch that is checked out.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| is_release && Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git says, if there is a git and a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
