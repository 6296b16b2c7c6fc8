//! Accuracy of a model on the tasks of a file.
//!
//! A task is a question with choices, decided by the log likelihood of each, or a prompt whose
//! continuation must be a given text. Queries and counting follow lm-eval with an API model, so both
//! come to the same numbers.

mod file;
mod query;
mod score;

use std::collections::VecDeque;

use anyhow::{Context, Result};
use serde_json::Value;
use wf_engine::Frontend;

use self::file::Task;
use self::query::{Answer, PendingQuery, Query};
pub use self::score::Scores;
use crate::progress;

/// Maximum number of queries in flight: enough to fill the engine's steps.
const MAX_IN_FLIGHT: usize = 32;

/// The tasks of a file.
pub struct Tasks {
    /// Name of the file, for messages.
    name: String,
    tasks: Vec<Task>,
}

impl Tasks {
    /// Reads tasks from `text`, one JSON object per line. Messages call the file `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), tasks: file::parse(name, text)? })
    }

    /// Drops all tasks after the first `limit`.
    pub fn truncate(&mut self, limit: usize) {
        self.tasks.truncate(limit);
    }

    /// Runs all tasks. Returns their results in order, as JSON objects.
    pub fn run(&self, frontend: &Frontend) -> Result<Vec<Value>> {
        let at = |task: &Task| format!("{}:{}", self.name, task.line);
        let mut queries = Vec::new();
        for (index, task) in self.tasks.iter().enumerate() {
            let of_task = Query::of_task(frontend, &task.kind).with_context(|| at(task))?;
            queries.extend(of_task.into_iter().map(|query| (index, query)));
        }
        let bar = progress::bar(queries.len(), "tasks");
        let mut answers: Vec<Vec<Answer>> = self.tasks.iter().map(|_| Vec::new()).collect();
        let mut queries = queries.into_iter();
        let mut in_flight: VecDeque<(usize, PendingQuery)> = VecDeque::new();
        loop {
            while in_flight.len() < MAX_IN_FLIGHT
                && let Some((index, query)) = queries.next()
            {
                let pending = query.submit(frontend).with_context(|| at(&self.tasks[index]))?;
                in_flight.push_back((index, pending));
            }
            let Some((index, first)) = in_flight.pop_front() else { break };
            answers[index].push(first.wait().with_context(|| at(&self.tasks[index]))?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let tasks = self.tasks.iter().zip(&answers);
        Ok(tasks.map(|(task, answers)| score::result(task, answers)).collect())
    }
}
