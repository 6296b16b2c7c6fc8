//! The other program: a Python that runs `llama_cpp.py` and answers one case at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const PROGRAM: &str = include_str!("llama_cpp.py");

/// What it says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Version(String),
    Seconds(f64),
    /// A module that is not installed.
    Missing(String),
    Error(String),
}

/// A running program with a model in memory.
pub(super) struct Other {
    child: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Other {
    /// Starts `python` and has it load `model`.
    pub(super) fn start(python: &Path, model: &Path, context_len: usize) -> Result<Self> {
        let name = python.display();
        let mut child = Command::new(python)
            .args(["-c", PROGRAM])
            .arg(model)
            .arg(context_len.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{name} could not be started"))?;
        let answers = BufReader::new(child.stdout.take().context("a pipe to read from")?);
        let mut other = Self { child, answers, version: String::new() };
        match other.answer()? {
            Answer::Version(version) => other.version = version,
            Answer::Missing(module) => bail!(
                "{name} has no module {module}: install it with `{name} -m pip install llama-cpp-python`"
            ),
            Answer::Error(error) => bail!("llama-cpp-python could not load the model: {error}"),
            Answer::Seconds(_) => bail!("llama-cpp-python answered before it was asked"),
        }
        Ok(other)
    }

    /// The program and its version.
    pub(super) fn name(&self) -> String {
        format!("llama-cpp-python {}", self.version)
    }

    /// Seconds that a case takes it.
    pub(super) fn seconds(&mut self, pass: &str, tokens: usize, threads: usize) -> Result<f64> {
        let input = self.child.stdin.as_mut().context("a pipe to write to")?;
        writeln!(input, "{pass} {tokens} {threads}")?;
        input.flush()?;
        match self.answer()? {
            Answer::Seconds(seconds) => Ok(seconds),
            Answer::Error(error) => bail!("llama-cpp-python failed at a {pass}: {error}"),
            Answer::Version(_) | Answer::Missing(_) => bail!("llama-cpp-python gave no time"),
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("llama-cpp-python ended without an answer ({status})");
        }
        serde_json::from_str(&line).with_context(|| format!("its answer {line:?}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for, so that none is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
