//! Sets `WF_BUILD` to the commit of a release build.

use std::path::Path;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "cargo passes the profile in a variable")]
fn main() {
    // Release builds only: other builds would be repeated after each commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = is_release.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten();
    let build = match (commit, is_release) {
        (Some(commit), _) => format!("commit {commit}"),
        (None, true) => "commit unknown".to_owned(),
        (None, false) => "development build".to_owned(),
    };
    println!("cargo::rustc-env=WF_BUILD={build}");
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD changes with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| is_release && Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns the output of git, if it succeeds.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
