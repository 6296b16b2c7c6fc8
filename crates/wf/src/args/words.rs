//! A model and a word: what commands that work on a text are called with.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::report::UsageError;

/// A model that may be left out, and a last word that may not: a prompt, or a file.
///
/// One list and not two arguments: clap would take the model for the last word when a flag stands
/// between them. Not text yet, because the name of a file can be any bytes.
#[derive(ClapArgs)]
pub(crate) struct ModelAndWord {
    // Shown by the usage line and the text before the help instead.
    #[arg(hide = true)]
    words: Vec<OsString>,

    /// Another way to name the model
    #[arg(long = "model", env = "WF_MODEL", value_name = "MODEL", hide = true)]
    named: Option<PathBuf>,
}

impl ModelAndWord {
    /// The model, if one was named, and the last word, which is called `what` in messages.
    pub(crate) fn split(&self, what: &str) -> Result<(Option<&Path>, &OsStr), UsageError> {
        match &self.words[..] {
            [] => Err(UsageError::new(format!(
                "no {what}: give one as the last word, or - for standard input"
            ))),
            [word] => Ok((self.named.as_deref(), word)),
            [model, word] => Ok((Some(Path::new(model)), word)),
            words => Err(UsageError::new(format!(
                "{} words are more than a model and a {what}: put a {what} with spaces in quotes",
                words.len()
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
    fn a_lone_word_is_the_prompt() {
        let parse = |words: &[&str]| match Args::parse_from(words).command {
            Command::Run(run) => {
                let (model, prompt) = run.words.split("prompt").unwrap();
                (model.map(PathBuf::from), prompt.to_owned())
            }
            _ => panic!("not run"),
        };
        assert_eq!(parse(&["wf", "run", "hello"]), (None, "hello".into()));
        let both = (Some("m.gguf".into()), OsString::from("hello"));
        assert_eq!(parse(&["wf", "run", "m.gguf", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "m.gguf", "--raw", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "-n", "3", "m.gguf", "--top-k", "5", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "hello", "--model", "m.gguf"]), both);
    }
}
