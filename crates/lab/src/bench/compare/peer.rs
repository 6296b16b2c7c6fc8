//! The other program: a Python process that runs `llama_cpp.py`, one case at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const PROGRAM: &str = include_str!("llama_cpp.py");

/// A line of its output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Version(String),
    Seconds(f64),
    /// Name of a module that is not installed.
    Missing(String),
    Error(String),
}

pub(super) struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Peer {
    /// Starts `python`, which must have llama-cpp-python.
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
            .with_context(|| format!("cannot start {name}"))?;
        let answers = BufReader::new(child.stdout.take().context("no pipe to read from")?);
        let mut peer = Self { child, answers, version: String::new() };
        match peer.answer()? {
            Answer::Version(version) => peer.version = version,
            Answer::Missing(module) => {
                bail!("{name} has no module {module}: run `{name} -m pip install llama-cpp-python`")
            }
            Answer::Error(error) => bail!("llama-cpp-python does not start: {error}"),
            Answer::Seconds(_) => bail!("llama-cpp-python sent an unexpected time"),
        }
        Ok(peer)
    }

    pub(super) fn name(&self) -> String {
        format!("llama-cpp-python {}", self.version)
    }

    /// Loads `model` with a context of `context_len` tokens.
    pub(super) fn load(&mut self, model: &Path, context_len: usize) -> Result<()> {
        self.request(&format!("load {context_len} {}", model.display())).map(drop)
    }

    pub(super) fn seconds(&mut self, pass: &str, tokens: usize, threads: usize) -> Result<f64> {
        self.request(&format!("{pass} {tokens} {threads}"))
    }

    fn request(&mut self, order: &str) -> Result<f64> {
        let input = self.child.stdin.as_mut().context("no pipe to write to")?;
        writeln!(input, "{order}")
            .and_then(|()| input.flush())
            .context("llama-cpp-python has exited")?;
        match self.answer()? {
            Answer::Seconds(seconds) => Ok(seconds),
            Answer::Error(error) => bail!("llama-cpp-python failed at `{order}`: {error}"),
            Answer::Version(_) | Answer::Missing(_) => bail!("llama-cpp-python sent no time"),
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("llama-cpp-python exited without an answer ({status})");
        }
        serde_json::from_str(&line).with_context(|| format!("answer of llama-cpp-python {line:?}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Waits in any case, so that no zombie is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in place of Python: it takes a program in the same way.
    fn started(script: &str) -> Result<Peer> {
        Peer::start_with(Path::new("sh"), script)
    }

    #[test]
    fn requests_are_answered_in_order() {
        let mut peer = started(
            r#"echo '{"version": "1.2"}'; read a; echo '{"seconds": 3.5}'; read b
               echo "{\"error\": \"$a, $b\"}""#,
        )
        .unwrap();
        assert_eq!(peer.name(), "llama-cpp-python 1.2");
        peer.load(Path::new("a model.gguf"), 129).unwrap();
        let error = peer.seconds("decode", 16, 2).unwrap_err().to_string();
        assert!(error.contains("load 129 a model.gguf, decode 16 2"), "{error}");
        let error = peer.seconds("decode", 16, 2).unwrap_err().to_string();
        assert!(
            error.contains("has exited") || error.contains("exited without an answer"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_module_is_an_error_with_a_remedy() {
        let error_of = |script: &str| started(script).map(drop).unwrap_err().to_string();
        let missing = error_of(r#"echo '{"missing": "llama_cpp"}'"#);
        assert!(missing.contains("has no module llama_cpp"), "{missing}");
        assert!(missing.contains("-m pip install llama-cpp-python"), "{missing}");
        assert!(error_of("exit 3").contains("exited without an answer"), "{}", error_of("exit 3"));
        assert!(error_of(r#"echo '{"error": "no lib"}'"#).contains("no lib"));
        let error = Peer::start(Path::new("no-such-python")).map(drop).unwrap_err();
        assert!(error.to_string().contains("cannot start no-such-python"), "{error}");
    }
}
