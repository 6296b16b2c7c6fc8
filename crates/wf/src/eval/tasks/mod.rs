//! `wf eval tasks`: how many tasks of a file a model gets right.
//!
//! A task is a question with choices, decided by how likely the model finds each, or a prompt whose
//! continuation must be a given text. What is asked of the model, and how it is counted, is as
//! lm-eval does it through a server, so both come to the same numbers.

mod ask;
mod file;
mod score;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wf_engine::{Frontend, KvRoom, RunOptions};

use self::ask::{Answer, Ask, Asked};
use self::file::Task;
use self::score::{Scores, TaskReport};
use super::args::TasksArgs;
use crate::load::drive::progress;
use crate::{memory, open, report};

/// What the engine has to do at once: enough to fill its steps.
const AT_ONCE: usize = 32;
/// Room for this many full contexts, if there is memory for them. Most tasks are short.
const CONTEXTS: usize = 4;

/// Runs the command.
pub(crate) fn tasks(args: &TasksArgs) -> Result<()> {
    let (path, model) = args.words();
    let mut tasks = file::read(path)?;
    tasks.truncate(args.limit.unwrap_or(usize::MAX));
    let at_most = memory::free().map(|free| free / 2);
    let options = RunOptions {
        head: args.head.head,
        sparse: args.head.sparse,
        kv_room: KvRoom::Contexts { count: CONTEXTS, at_most },
        ..args.compute.options(&args.file_args)
    };
    let opened = open::model(model, None, &options)?;
    let reports = run(&opened.frontend, path, &tasks)?;
    if let Some(output) = &args.output {
        write(output, &reports)?;
    }
    let scores = Scores::of(&reports);
    if args.json { report::json(&scores) } else { report::stream(&scores.table()) }
}

/// What came of each task.
fn run(frontend: &Frontend, path: &Path, tasks: &[Task]) -> Result<Vec<TaskReport>> {
    let at = |task: &Task| format!("{}:{}", path.display(), task.line);
    let mut asks = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let of_task = Ask::of(frontend.text(), &task.kind).with_context(|| at(task))?;
        asks.extend(of_task.into_iter().map(|ask| (number, ask)));
    }
    let bar = progress(asks.len(), "tasks");
    let mut answers: Vec<Vec<Answer>> = tasks.iter().map(|_| Vec::new()).collect();
    let mut asks = asks.into_iter();
    let mut asked: VecDeque<(usize, Asked)> = VecDeque::new();
    loop {
        while asked.len() < AT_ONCE
            && let Some((number, ask)) = asks.next()
        {
            let begun = ask.begin(frontend).with_context(|| at(&tasks[number]))?;
            asked.push_back((number, begun));
        }
        let Some((number, first)) = asked.pop_front() else { break };
        answers[number].push(first.answer().with_context(|| at(&tasks[number]))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(tasks.iter().zip(&answers).map(|(task, answers)| TaskReport::new(task, answers)).collect())
}

/// One JSON object a line, in the order of the tasks.
fn write(path: &Path, reports: &[TaskReport]) -> Result<()> {
    let mut text = String::new();
    for report in reports {
        text += &serde_json::to_string(report)?;
        text.push('\n');
    }
    if let Err(error) = fs::write(path, text) {
        bail!("writing {}: {error}", path.display());
    }
    Ok(())
}
