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

/// A running program.
pub(super) struct Other {
    child: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Other {
    /// Starts `python`, if it has the module.
    pub(super) fn start(python: &Path) -> Result<Self> {
        Self::start_with(python, PROGRAM)
    }

    fn start_with(python: &Path, program: &str) -> Result<Self> {
        let name = python.display();
        let mut child = Command::new(python)
            .args(["-c", program])
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
            Answer::Error(error) => bail!("llama-cpp-python does not start: {error}"),
            Answer::Seconds(_) => bail!("llama-cpp-python answered before it was asked"),
        }
        Ok(other)
    }

    /// The program and its version.
    pub(super) fn name(&self) -> String {
        format!("llama-cpp-python {}", self.version)
    }

    /// Has it load `model`, with room for `context_len` tokens.
    pub(super) fn load(&mut self, model: &Path, context_len: usize) -> Result<()> {
        self.ask(&format!("load {context_len} {}", model.display())).map(drop)
    }

    /// Seconds that a case takes it.
    pub(super) fn seconds(&mut self, pass: &str, tokens: usize, threads: usize) -> Result<f64> {
        self.ask(&format!("{pass} {tokens} {threads}"))
    }

    fn ask(&mut self, order: &str) -> Result<f64> {
        let input = self.child.stdin.as_mut().context("a pipe to write to")?;
        writeln!(input, "{order}")
            .and_then(|()| input.flush())
            .context("llama-cpp-python is gone")?;
        match self.answer()? {
            Answer::Seconds(seconds) => Ok(seconds),
            Answer::Error(error) => bail!("llama-cpp-python failed at `{order}`: {error}"),
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A shell in place of Python: it takes a program in the same way.
    fn started(script: &str) -> Result<Other> {
        Other::start_with(Path::new("sh"), script)
    }

    #[test]
    fn orders_are_answered_one_by_one() {
        let mut other = started(
            r#"echo '{"version": "1.2"}'; read a; echo '{"seconds": 3.5}'; read b
               echo "{\"error\": \"$a, $b\"}""#,
        )
        .unwrap();
        assert_eq!(other.name(), "llama-cpp-python 1.2");
        other.load(Path::new("a model.gguf"), 129).unwrap();
        let error = other.seconds("decode", 16, 2).unwrap_err().to_string();
        assert!(error.contains("load 129 a model.gguf, decode 16 2"), "{error}");
        let error = other.seconds("decode", 16, 2).unwrap_err().to_string();
        assert!(error.contains("gone") || error.contains("ended without an answer"), "{error}");
    }

    #[test]
    fn what_is_missing_is_told_with_how_to_get_it() {
        let refusal = |script: &str| started(script).map(drop).unwrap_err().to_string();
        let missing = refusal(r#"echo '{"missing": "llama_cpp"}'"#);
        assert!(missing.contains("has no module llama_cpp"), "{missing}");
        assert!(missing.contains("-m pip install llama-cpp-python"), "{missing}");
        assert!(refusal("exit 3").contains("ended without an answer"), "{}", refusal("exit 3"));
        assert!(refusal(r#"echo '{"error": "no lib"}'"#).contains("no lib"));
        let error = Other::start(Path::new("no-such-python")).map(drop).unwrap_err();
        assert!(error.to_string().contains("no-such-python could not be started"), "{error}");
    }
}
