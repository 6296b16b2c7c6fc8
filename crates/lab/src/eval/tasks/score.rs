//! Scores of single tasks, and of all together.

use std::fmt;

use serde::Serialize;

use super::file::{Choice, Generation, Kind, Task};
use super::query::Answer;

/// The result of a task.
#[derive(Serialize)]
pub struct TaskReport {
    line: usize,
    #[serde(flatten)]
    result: TaskResult,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum TaskResult {
    Choice(ChoiceResult),
    Generation(GenerationResult),
}

#[derive(Serialize)]
struct ChoiceResult {
    /// Natural logarithm of each choice's probability.
    loglikelihoods: Vec<f64>,
    answer: usize,
    /// Index of the likeliest choice; then per character, and per byte.
    picked: usize,
    picked_norm: usize,
    picked_bytes: usize,
    acc: bool,
    acc_norm: bool,
    acc_bytes: bool,
}

#[derive(Serialize)]
struct GenerationResult {
    text: String,
    answers: Vec<String>,
    exact_match: bool,
}

impl TaskReport {
    /// Scores the answers to the task's queries, which are in order.
    pub(super) fn new(task: &Task, answers: &[Answer]) -> Self {
        let result = match &task.kind {
            Kind::Choice(choice) => TaskResult::Choice(ChoiceResult::new(choice, answers)),
            Kind::Generation(task) => TaskResult::Generation(GenerationResult::new(task, answers)),
        };
        Self { line: task.line, result }
    }
}

impl ChoiceResult {
    fn new(task: &Choice, answers: &[Answer]) -> Self {
        let likelihood = |answer: &Answer| match answer {
            Answer::LogLikelihood(likelihood) => *likelihood,
            Answer::Text(_) => f64::NEG_INFINITY,
        };
        let loglikelihoods: Vec<f64> = answers.iter().map(likelihood).collect();
        let by = |len: fn(&str) -> usize| {
            let shares = loglikelihoods.iter().zip(&task.choices);
            argmax(shares.map(|(likelihood, choice)| likelihood / len(choice) as f64))
        };
        let picked = by(|_| 1);
        let picked_norm = by(|choice| choice.chars().count());
        let picked_bytes = by(str::len);
        Self {
            answer: task.answer,
            acc: picked == task.answer,
            acc_norm: picked_norm == task.answer,
            acc_bytes: picked_bytes == task.answer,
            picked,
            picked_norm,
            picked_bytes,
            loglikelihoods,
        }
    }
}

/// Returns the index of the largest value; among equals, the first.
fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let best = values.enumerate().fold((0, f64::NEG_INFINITY), |best, (at, value)| {
        if value > best.1 { (at, value) } else { best }
    });
    best.0
}

impl GenerationResult {
    fn new(task: &Generation, answers: &[Answer]) -> Self {
        let text = match answers {
            [Answer::Text(text)] => text.clone(),
            _ => String::new(),
        };
        let is_right = |answer: &String| answer.trim() == text.trim();
        let exact_match = task.answers.iter().any(is_right);
        Self { text, answers: task.answers.clone(), exact_match }
    }
}

/// Scores over all tasks. Displays as a table; a score that applies to no task is left out.
#[derive(Default, Serialize)]
pub struct Scores {
    tasks: usize,
    /// Tasks with choices whose right choice is the likeliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    acc: Option<Share>,
    /// The same with log likelihoods divided by the characters of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    acc_norm: Option<Share>,
    /// The same with log likelihoods divided by bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    acc_bytes: Option<Share>,
    /// Tasks without choices whose completion is an accepted one, up to surrounding whitespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_match: Option<Share>,
}

#[derive(Serialize)]
struct Share {
    value: f64,
    /// Standard error of the value; `None` for a single task.
    stderr: Option<f64>,
    right: usize,
    count: usize,
}

impl Share {
    /// Returns `None` if there are no tasks.
    fn of(right: &[bool]) -> Option<Self> {
        let count = right.len();
        let hits = right.iter().filter(|right| **right).count();
        let value = hits as f64 / count as f64;
        // Sample standard deviation of zeros and ones, divided by the root of the sample size.
        let stderr = (count > 1).then(|| (value * (1.0 - value) / (count as f64 - 1.0)).sqrt());
        (count > 0).then_some(Self { value, stderr, right: hits, count })
    }
}

impl Scores {
    /// Summarizes the results of tasks.
    pub fn of(reports: &[TaskReport]) -> Self {
        let choices = |of: fn(&ChoiceResult) -> bool| {
            let right = reports.iter().filter_map(|report| match &report.result {
                TaskResult::Choice(result) => Some(of(result)),
                TaskResult::Generation(_) => None,
            });
            Share::of(&right.collect::<Vec<_>>())
        };
        let written = reports.iter().filter_map(|report| match &report.result {
            TaskResult::Choice(_) => None,
            TaskResult::Generation(result) => Some(result.exact_match),
        });
        Self {
            tasks: reports.len(),
            acc: choices(|result| result.acc),
            acc_norm: choices(|result| result.acc_norm),
            acc_bytes: choices(|result| result.acc_bytes),
            exact_match: Share::of(&written.collect::<Vec<_>>()),
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("acc", &self.acc),
            ("acc_norm", &self.acc_norm),
            ("acc_bytes", &self.acc_bytes),
            ("exact_match", &self.exact_match),
        ];
        for (name, share) in rows {
            let Some(Share { value, stderr, right, count }) = share else { continue };
            let stderr = stderr.map_or(String::new(), |stderr| format!(" ± {stderr:.4}"));
            writeln!(f, "{name:<12} {value:.4}{stderr}   {right} of {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_is_that_of_a_sample() {
        // Three of four: the deviations are 1/4, 1/4, 1/4 and 3/4.
        let share = Share::of(&[true, true, true, false]).unwrap();
        let deviation = ((3.0 / 16.0 + 9.0 / 16.0) / 3.0_f64).sqrt();
        assert!((share.stderr.unwrap() - deviation / 2.0).abs() < 1e-12);
        assert_eq!(share.value, 0.75);
        assert!(Share::of(&[true]).unwrap().stderr.is_none());
        assert!(Share::of(&[]).is_none());
    }

    #[test]
    fn a_long_choice_may_be_likelier_by_character_and_by_byte() {
        let task = Choice {
            prompt: "a".into(),
            choices: vec!["b".into(), "cccc".into(), "ÄÄÄÄ".into()],
            delimiter: None,
            answer: 1,
        };
        let answers = [-2.0, -6.0, -7.0].map(Answer::LogLikelihood);
        let result = ChoiceResult::new(&task, &answers);
        assert_eq!((result.picked, result.picked_norm, result.picked_bytes), (0, 1, 2));
        assert_eq!((result.acc, result.acc_norm, result.acc_bytes), (false, true, false));
        let equal = [-1.0, -1.0, -1.0].map(Answer::LogLikelihood);
        assert_eq!(ChoiceResult::new(&task, &equal).picked, 0);
    }

    #[test]
    fn whitespace_around_a_completion_is_ignored() {
        let task = Generation {
            prompt: "a".into(),
            answers: vec!["b".into(), "a cat".into()],
            max_tokens: 4,
            stop: Vec::new(),
        };
        let is_right =
            |text: &str| GenerationResult::new(&task, &[Answer::Text(text.into())]).exact_match;
        assert!(is_right(" a cat\n") && is_right("b"));
        assert!(!is_right("a  cat") && !is_right("A cat") && !is_right(""));
    }
}
