//! The file of tasks: one JSON object a line. Whatever is wrong is named with its line.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;

use crate::open;

/// A task of the file.
pub(super) struct Task {
    /// Its line, counted from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Which of the choices goes on?
    Choice(Choice),
    /// How does it go on?
    Generation(Generation),
}

pub(super) struct Choice {
    pub(super) prompt: String,
    pub(super) choices: Vec<String>,
    /// What stands between the prompt and a choice, if it is not to be found out.
    pub(super) delimiter: Option<String>,
    /// The place of the right one.
    pub(super) answer: usize,
}

pub(super) struct Generation {
    pub(super) prompt: String,
    /// Any of these is right.
    pub(super) answers: Vec<String>,
    pub(super) max_tokens: usize,
    pub(super) stop: Vec<String>,
}

/// What is written unless a task says how much: lm-eval's number.
const MAX_TOKENS: usize = 256;

/// A line as it is written. Fields of other names are for others.
#[derive(Deserialize)]
struct Line {
    #[serde(alias = "context")]
    prompt: Option<String>,
    choices: Option<Vec<String>>,
    delimiter: Option<String>,
    answer: Option<GivenAnswer>,
    answers: Option<Vec<String>>,
    max_tokens: Option<usize>,
    stop: Option<Stops>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number of a choice, or a text")]
enum GivenAnswer {
    Place(usize),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum Stops {
    One(String),
    Many(Vec<String>),
}

/// Reads all tasks; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Vec<Task>> {
    let text = open::read_text_file(path)?;
    let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    let tasks = lines.map(|(line, text)| match kind(text) {
        Ok(kind) => Ok(Task { line, kind }),
        Err(error) => bail!("{}:{line}: {error}", path.display()),
    });
    let tasks = tasks.collect::<Result<Vec<_>>>()?;
    ensure!(!tasks.is_empty(), "{}: no tasks: one JSON object a line is needed", path.display());
    Ok(tasks)
}

fn kind(text: &str) -> Result<Kind> {
    let line: Line = serde_json::from_str(text)?;
    let Some(prompt) = line.prompt else { bail!("prompt (or context) is missing") };
    match line.choices {
        Some(choices) => {
            ensure!(choices.len() >= 2, "choices: {} given, at least 2 are needed", choices.len());
            if let Some(empty) = choices.iter().position(String::is_empty) {
                bail!("choices[{empty}]: the text is empty");
            }
            let answer = match line.answer {
                Some(GivenAnswer::Place(place)) => place,
                Some(GivenAnswer::Text(text)) => {
                    match choices.iter().position(|one| *one == text) {
                        Some(place) => place,
                        None => bail!("answer: {text:?} is none of the choices"),
                    }
                }
                None => bail!("answer is missing: the number of the right choice, from 0"),
            };
            let last = choices.len() - 1;
            ensure!(answer <= last, "answer is {answer}: 0 to {last} is allowed");
            Ok(Kind::Choice(Choice { prompt, choices, delimiter: line.delimiter, answer }))
        }
        None => {
            ensure!(!prompt.is_empty(), "prompt: the text is empty");
            let answers = match (line.answer, line.answers) {
                (Some(GivenAnswer::Text(text)), None) => vec![text],
                (None, Some(answers)) if !answers.is_empty() => answers,
                (Some(GivenAnswer::Place(_)), None) => {
                    bail!("answer is a number, but there are no choices: give the text as a string")
                }
                _ => bail!("choices, answer or answers is missing: one of the three is needed"),
            };
            let max_tokens = line.max_tokens.unwrap_or(MAX_TOKENS);
            ensure!(max_tokens > 0, "max_tokens is 0: at least 1 is needed");
            let stop = match line.stop {
                None => Vec::new(),
                Some(Stops::One(stop)) => vec![stop],
                Some(Stops::Many(stops)) => stops,
            };
            ensure!(stop.iter().all(|stop| !stop.is_empty()), "stop: a text is empty");
            Ok(Kind::Generation(Generation { prompt, answers, max_tokens, stop }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        kind(line).err().unwrap().to_string()
    }

    #[test]
    fn both_kinds_are_read() {
        let Ok(Kind::Choice(choice)) =
            kind(r#"{"id": 7, "context": "a", "choices": ["b", "c"], "answer": "c"}"#)
        else {
            panic!("no choice")
        };
        assert_eq!((choice.prompt.as_str(), choice.answer), ("a", 1));
        let Ok(Kind::Generation(task)) = kind(r#"{"prompt": "a", "answer": "b", "stop": "\n"}"#)
        else {
            panic!("no generation")
        };
        assert_eq!((task.answers, task.stop), (vec!["b".to_owned()], vec!["\n".to_owned()]));
        assert_eq!(task.max_tokens, MAX_TOKENS);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("{", "EOF"),
            ("[]", "invalid length"),
            (r#"{"choices": ["a", "b"], "answer": 0}"#, "prompt"),
            (r#"{"prompt": "a", "choices": ["b"], "answer": 0}"#, "choices: 1"),
            (r#"{"prompt": "a", "choices": ["b", ""], "answer": 0}"#, "choices[1]"),
            (r#"{"prompt": "a", "choices": ["b", "c"], "answer": 2}"#, "0 to 1"),
            (r#"{"prompt": "a", "choices": ["b", "c"], "answer": -1}"#, "number of a choice"),
            (r#"{"prompt": "a", "choices": ["b", "c"], "answer": "d"}"#, "none of the choices"),
            (r#"{"prompt": "a", "choices": ["b", "c"]}"#, "answer is missing"),
            (r#"{"prompt": "a"}"#, "choices, answer or answers"),
            (r#"{"prompt": "a", "answers": []}"#, "choices, answer or answers"),
            (r#"{"prompt": "a", "answer": 1}"#, "no choices"),
            (r#"{"prompt": "", "answer": "b"}"#, "prompt"),
            (r#"{"prompt": "a", "answer": "b", "max_tokens": 0}"#, "max_tokens"),
            (r#"{"prompt": "a", "answer": "b", "stop": [""]}"#, "stop"),
            (r#"{"prompt": 1, "answer": "b"}"#, "expected a string"),
        ] {
            let message = wrong(line);
            assert!(message.contains(named), "{line}: {message}");
        }
    }
}
