//! Positional arguments of commands that work on a text.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::output::UsageError;

/// Help template for commands with a note on their arguments: description, usage, note, options.
pub(crate) const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}";

/// An optional model and a required input: a prompt, a text, or a file.
///
/// One list instead of two arguments: clap would take the model for the input if a flag is between
/// them. Not `String`, because file names can be any bytes.
#[derive(ClapArgs)]
pub(crate) struct ModelAndInput {
    // The usage line and the note before the options describe it instead.
    #[arg(hide = true)]
    positional: Vec<OsString>,

    /// Model
    #[arg(long = "model", short = 'm', alias = "model-path", value_name = "MODEL", hide = true)]
    model: Option<PathBuf>,
}

impl ModelAndInput {
    /// Returns the model, if there is one, and the input, which messages call `name`.
    pub(crate) fn split(&self, name: &str) -> Result<(Option<&Path>, &OsStr), UsageError> {
        match &self.positional[..] {
            [] => Err(UsageError::new(format!(
                "missing {name}: give one as the last argument, or - for standard input"
            ))),
            [input] => Ok((self.model.as_deref(), input)),
            [model, input] => Ok((Some(Path::new(model)), input)),
            more => Err(UsageError::new(format!(
                "{} arguments: expected a model and a {name}; quote a {name} with spaces",
                more.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn a_single_argument_is_the_prompt() {
        let parse = |words: &[&str]| match Args::parse_from(words).command {
            Command::Run(run) => {
                let (model, prompt) = run.input.split("prompt").unwrap();
                (model.map(PathBuf::from), prompt.to_owned())
            }
            _ => panic!("not run"),
        };
        assert_eq!(parse(&["wf", "run", "hello"]), (None, "hello".into()));
        let both = (Some("m.gguf".into()), OsString::from("hello"));
        assert_eq!(parse(&["wf", "run", "m.gguf", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "m.gguf", "--raw", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "-n", "3", "m.gguf", "--top-k", "5", "hello"]), both);
        for flag in ["--model", "--model-path", "-m"] {
            assert_eq!(parse(&["wf", "run", flag, "m.gguf", "hello"]), both, "{flag}");
        }
    }
}
