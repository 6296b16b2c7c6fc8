//! Scores of single tasks, and of all together.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::file::{Choice, Generation, Kind, Task};
use super::query::Answer;

/// The scores of a task, which are booleans of its result: the right choice is the likeliest, by its
/// log likelihood, and by that divided by its characters or by its bytes; or the completion is an
/// accepted one, up to surrounding whitespace.
const SCORES: [&str; 4] = ["acc", "acc_norm", "acc_bytes", "exact_match"];

/// Returns the result of a task, given the answers to its queries in order.
pub(super) fn result(task: &Task, answers: &[Answer]) -> Value {
    match &task.kind {
        Kind::Choice(choice) => choice_result(task.line, choice, answers),
        Kind::Generation(generation) => generation_result(task.line, generation, answers),
    }
}

fn choice_result(line: usize, task: &Choice, answers: &[Answer]) -> Value {
    let loglikelihoods: Vec<f64> = answers.iter().map(|answer| answer.loglikelihood).collect();
    let by = |len: fn(&str) -> usize| {
        let shares = loglikelihoods.iter().zip(&task.choices);
        argmax(shares.map(|(likelihood, choice)| likelihood / len(choice) as f64))
    };
    let (picked, picked_norm) = (by(|_| 1), by(|choice| choice.chars().count()));
    let picked_bytes = by(str::len);
    json!({
        "line": line,
        "kind": "choice",
        "loglikelihoods": loglikelihoods,
        "answer": task.answer,
        "picked": picked,
        "picked_norm": picked_norm,
        "picked_bytes": picked_bytes,
        "acc": picked == task.answer,
        "acc_norm": picked_norm == task.answer,
        "acc_bytes": picked_bytes == task.answer,
    })
}

/// Returns the index of the largest value; among equals, the first.
fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let best = values.enumerate().fold((0, f64::NEG_INFINITY), |best, (at, value)| {
        if value > best.1 { (at, value) } else { best }
    });
    best.0
}

fn generation_result(line: usize, task: &Generation, answers: &[Answer]) -> Value {
    let text = answers.first().map_or("", |answer| &answer.text);
    let is_right = |answer: &String| answer.trim() == text.trim();
    json!({
        "line": line,
        "kind": "generation",
        "text": text,
        "answers": task.answers,
        "exact_match": task.answers.iter().any(is_right),
    })
}

/// Scores over all tasks. Displays as a table; a score that applies to no task is left out.
#[derive(Serialize)]
pub struct Scores {
    tasks: usize,
    #[serde(flatten, serialize_with = "as_map")]
    shares: Vec<(&'static str, Share)>,
}

fn as_map<S: Serializer>(shares: &[(&str, Share)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(shares.iter().map(|(name, share)| (name, share)))
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
    pub fn of(results: &[Value]) -> Self {
        let share = |name| {
            let right = results.iter().filter_map(|result| result[name].as_bool());
            Some((name, Share::of(&right.collect::<Vec<_>>())?))
        };
        Self { tasks: results.len(), shares: SCORES.into_iter().filter_map(share).collect() }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Share { value, stderr, right, count }) in &self.shares {
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
        let answer = |loglikelihood| Answer { loglikelihood, ..Answer::default() };
        let result = choice_result(1, &task, &[-2.0, -6.0, -7.0].map(answer));
        let found = |keys: [&str; 3]| keys.map(|key| result[key].clone());
        assert_eq!(found(["picked", "picked_norm", "picked_bytes"]), [0, 1, 2].map(Value::from));
        assert_eq!(found(["acc", "acc_norm", "acc_bytes"]), [false, true, false].map(Value::from));
        assert_eq!(choice_result(1, &task, &[-1.0, -1.0, -1.0].map(answer))["picked"], 0);
    }

    #[test]
    fn whitespace_around_a_completion_is_ignored() {
        let task = Generation {
            prompt: "a".into(),
            answers: vec!["b".into(), "a cat".into()],
            max_tokens: 4,
            stop: Vec::new(),
        };
        let is_right = |text: &str| {
            let answer = Answer { text: text.into(), ..Answer::default() };
            generation_result(1, &task, &[answer])["exact_match"] == true
        };
        assert!(is_right(" a cat\n") && is_right("b"));
        assert!(!is_right("a  cat") && !is_right("A cat") && !is_right(""));
    }
}
