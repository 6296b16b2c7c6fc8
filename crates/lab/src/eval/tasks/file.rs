//! The file of tasks: one JSON object per line. Errors name the line.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

pub(super) struct Task {
    /// Line number, from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Choice(Choice),
    Generation(Generation),
}

pub(super) struct Choice {
    pub(super) prompt: String,
    pub(super) choices: Vec<String>,
    /// Text between the prompt and a choice; by default, a space where there is none.
    pub(super) delimiter: Option<String>,
    /// Index of the right choice.
    pub(super) answer: usize,
}

pub(super) struct Generation {
    pub(super) prompt: String,
    /// Accepted completions.
    pub(super) answers: Vec<String>,
    pub(super) max_tokens: usize,
    pub(super) stop: Vec<String>,
}

/// Default limit of a completion, as in lm-eval.
const MAX_TOKENS: usize = 256;

/// A line of the file. Other fields are ignored.
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
#[serde(untagged, expecting = "expected the index of a choice, or a string")]
enum GivenAnswer {
    Index(usize),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum Stops {
    One(String),
    Many(Vec<String>),
}

/// Parses all tasks of a file called `name`.
pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Task>> {
    let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    let tasks = lines.map(|(line, text)| match kind(text) {
        Ok(kind) => Ok(Task { line, kind }),
        Err(error) => bail!("{name}:{line}: {error}"),
    });
    let tasks = tasks.collect::<Result<Vec<_>>>()?;
    ensure!(!tasks.is_empty(), "{name}: no tasks: must have one JSON object per line");
    Ok(tasks)
}

fn kind(text: &str) -> Result<Kind> {
    let line: Line = serde_json::from_str(text)?;
    let prompt = line.prompt.context("prompt (or context) is missing")?;
    if let Some(choices) = line.choices {
        ensure!(choices.len() >= 2, "choices has {} elements: must have at least 2", choices.len());
        if let Some(empty) = choices.iter().position(String::is_empty) {
            bail!("choices[{empty}] is empty");
        }
        let answer = match line.answer {
            Some(GivenAnswer::Index(index)) => index,
            Some(GivenAnswer::Text(text)) => {
                let unknown = || format!("answer is {text:?}, which is none of the choices");
                choices.iter().position(|one| *one == text).with_context(unknown)?
            }
            None => bail!("answer is missing: must be the index of the right choice, from 0"),
        };
        let last = choices.len() - 1;
        ensure!(answer <= last, "answer is {answer}: must be 0 to {last}");
        return Ok(Kind::Choice(Choice { prompt, choices, delimiter: line.delimiter, answer }));
    }
    ensure!(!prompt.is_empty(), "prompt is empty");
    let answers = match (line.answer, line.answers) {
        (Some(GivenAnswer::Text(text)), None) => vec![text],
        (None, Some(answers)) if !answers.is_empty() => answers,
        (Some(GivenAnswer::Index(_)), None) => {
            bail!("answer is a number, but there are no choices: use a string")
        }
        _ => bail!("one of choices, answer or answers is required"),
    };
    let max_tokens = line.max_tokens.unwrap_or(MAX_TOKENS);
    ensure!(max_tokens > 0, "max_tokens is 0: must be at least 1");
    let stop = match line.stop {
        None => Vec::new(),
        Some(Stops::One(stop)) => vec![stop],
        Some(Stops::Many(stops)) => stops,
    };
    ensure!(stop.iter().all(|stop| !stop.is_empty()), "stop has an empty string");
    Ok(Kind::Generation(Generation { prompt, answers, max_tokens, stop }))
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
    fn errors_name_the_field() {
        for (line, named) in [
            ("{", "EOF"),
            ("[]", "invalid length"),
            (r#"{"choices": ["a", "b"], "answer": 0}"#, "prompt"),
            (r#"{"prompt": "a", "choices": ["b"], "answer": 0}"#, "choices has 1"),
            (r#"{"prompt": "a", "choices": ["b", ""], "answer": 0}"#, "choices[1]"),
            (r#"{"prompt": "a", "choices": ["b", "c"], "answer": 2}"#, "0 to 1"),
            (r#"{"prompt": "a", "choices": ["b", "c"], "answer": -1}"#, "index of a choice"),
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
