//! The cost of sampling: usual parameters against greedy decoding.
//!
//! Each case is a request to the engine, so this is what a user gets: the head reads the logits that
//! the parameters need, and the sampler chooses among them. Cases alternate, and the ratios are those of
//! neighbouring requests.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wf_engine::{EngineHandle, EngineOptions, Event, Limits, Request, SamplingParams};
use wf_model::Model;

use super::plan::Plan;
use crate::stats::{Repeats, Timing};

/// Names and parameters; the first is what the others are compared with.
fn cases() -> [(&'static str, SamplingParams); 6] {
    let warm = SamplingParams { temperature: 0.8, ..SamplingParams::default() };
    let penalties = SamplingParams {
        repetition_penalty: 1.1,
        presence_penalty: 0.2,
        frequency_penalty: 0.2,
        ..warm.clone()
    };
    [
        ("greedy", SamplingParams::default()),
        ("temperature 0.8", warm.clone()),
        ("temperature 0.8, top-p 0.95", SamplingParams { top_p: 0.95, ..warm.clone() }),
        ("temperature 0.8, min-p 0.05", SamplingParams { min_p: 0.05, ..warm.clone() }),
        ("temperature 0.8, top-k 40", SamplingParams { top_k: 40, ..warm }),
        ("temperature 0.8, penalties", penalties),
    ]
}

/// Measures all cases on the threads of `model`. Returns no rows if `positions` are too few.
pub(super) fn measure(model: Model, positions: usize, plan: &Plan) -> Result<Vec<Value>> {
    let threads = model.compute().threads();
    let engine = EngineHandle::start(model, EngineOptions::default())?;
    // The time of a token is that between two of them, so one more is needed, and one for the prompt.
    let tokens = plan.sampled_tokens.min(positions.saturating_sub(2));
    if tokens == 0 {
        return Ok(Vec::new());
    }
    let cases = cases();
    let mut seed = 0;
    let repeats = Repeats { max: plan.turns, budget: plan.passes.budget };
    let seconds = repeats.rounds(cases.len(), |case| {
        seed += 1;
        decode(&engine, SamplingParams { seed, ..cases[case].1.clone() }, tokens)
    });
    let seconds: Vec<Vec<f64>> =
        seconds.into_iter().map(|case| case.into_iter().collect()).collect::<Result<_>>()?;
    let row = |((name, _), own): (&(&str, SamplingParams), &Vec<f64>)| {
        let ratio =
            Timing::of(own.iter().zip(&seconds[0]).map(|(own, first)| first / own).collect());
        json!({
            "sampling": name,
            "threads": threads,
            "tok_s": Timing::of(own.clone()).per_second(tokens),
            "speedup": ratio.seconds,
            "spread": ratio.spread,
        })
    };
    Ok(cases.iter().zip(&seconds).map(row).collect())
}

/// Returns the seconds of `tokens` tokens after the first.
fn decode(engine: &EngineHandle, sampling: SamplingParams, tokens: usize) -> Result<f64> {
    let limits = Limits { max_tokens: tokens + 1, ..Limits::default() };
    let mut events =
        engine.submit(Request { prompt: vec![1], sampling, limits, ..Request::default() })?;
    let mut times: Vec<Instant> = Vec::new();
    loop {
        match events.next_with_time().context("the engine has stopped")? {
            (time, Event::Tokens { tokens, .. }) => times.extend(tokens.iter().map(|_| time)),
            (_, Event::Done(_)) => break,
            _ => {}
        }
    }
    let all = times.first().zip(times.last()).filter(|_| times.len() == tokens + 1);
    let (first, last) = all.context("the engine stopped early")?;
    Ok((*last - *first).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_case_is_greedy_and_all_others_sample() {
        let cases = cases();
        assert_eq!(cases[0].1.temperature, 0.0);
        assert!(cases[1..].iter().all(|(_, params)| params.temperature == 0.8));
        for (name, params) in &cases {
            assert!(params.check(32).is_ok(), "{name}");
        }
    }
}
