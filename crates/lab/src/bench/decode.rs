//! The speedup of each decoding mode, and the cost of a pass over several rows.
//!
//! All modes generate responses to the same prompts, alternating, so that noise of the machine affects
//! all of them. The quality of a response is its mean negative log likelihood under autoregressive
//! decoding.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use wf_engine::{
    DecodeMode, DecodeStats, DiffusionParams, Event, Frontend, GenerationRequest, Limits, MODES,
    PromptInput, Request, TokenId, UnmaskRule, open_with_draft,
};
use wf_text::ChatMessage;

use super::Setup;
use super::args::BenchArgs;
use super::network::Network;
use super::plan::Plan;
use super::subject::Subject;
use crate::stats::quantile;

/// Prompts that the demo model can respond to.
const PROMPTS: [&str; 8] = [
    "Hello!",
    "What is the capital of France?",
    "Tell me a story about a dragon.",
    "Who are you?",
    "Count from 1 to 20.",
    "Tell me a story about a little boat.",
    "How do I make tea?",
    "Tell me a story about a brave mouse.",
];

/// Numbers of rows of a pass.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Context length of those passes.
const CONTEXT: usize = 128;

/// The results of `wf bench --decode`. Displays as tables.
#[derive(Debug, Serialize)]
pub struct DecodeReport {
    pub(super) model: String,
    pub(super) threads: usize,
    pub(super) modes: Vec<ModeCase>,
    pub(super) pass_model: String,
    pub(super) passes: Vec<PassCost>,
}

#[derive(Debug, Serialize)]
pub(super) struct ModeCase {
    pub(super) decode: String,
    pub(super) tokens: usize,
    pub(super) tokens_per_pass: f64,
    pub(super) rows_per_pass: f64,
    /// Acceptance rate of draft tokens.
    pub(super) accepted: Option<f64>,
    pub(super) tok_s: f64,
    pub(super) speedup: f64,
    /// Mean negative log likelihood, in nats per token.
    pub(super) nll: Option<f64>,
    /// True if every response equals the autoregressive one.
    pub(super) same_replies: bool,
}

/// A pass over several rows, with logits for each.
#[derive(Debug, Serialize)]
pub(super) struct PassCost {
    pub(super) rows: usize,
    pub(super) ms: f64,
    /// Relative to a pass over one row.
    pub(super) ratio: f64,
}

pub(super) fn measure(
    args: &BenchArgs,
    setup: &Setup<'_>,
    plan: &mut Plan,
) -> Result<DecodeReport> {
    let options = &setup.options;
    let source = setup.model.clone().unwrap_or(setup.demo.clone());
    let opened = open_with_draft(&source, setup.draft.as_ref(), options, &mut |_| {})?;
    let max_tokens = if args.smoke { 8 } else { 96 };
    let modes = modes(&opened.frontend, plan.turns.min(5), max_tokens, setup.progress)?;
    drop(opened);

    let subject = Subject::choose(args, setup);
    plan.min_positions = plan.min_positions.max(CONTEXT + 2 * ROWS[ROWS.len() - 1]);
    let network = subject.load(setup, plan)?;
    let positions = CONTEXT + ROWS[ROWS.len() - 1];
    let mut network = Network::new(network, options.kv, options.max_batch_tokens, positions);
    Ok(DecodeReport {
        model: Subject::File(source).name(),
        threads: options.threads,
        modes,
        pass_model: subject.name(),
        passes: passes(&mut network, plan, setup.progress),
    })
}

/// Returns the modes that a model supports, starting with its default.
fn cases(frontend: &Frontend) -> Vec<(String, DecodeMode)> {
    let lossless = MODES.into_iter().filter(DecodeMode::is_left_to_right);
    let lossless = lossless.map(|mode| (mode.name().to_owned(), mode));
    let blocks = [0.5, 0.7, 0.9, 0.95, 1.0].map(|threshold| {
        let rule = UnmaskRule::Threshold(threshold);
        let mode = DecodeMode::Diffusion(DiffusionParams { rule, ..DiffusionParams::default() });
        (format!("diffusion, threshold {threshold}"), mode)
    });
    let others = ["factor", "entropy", "adaptive", "single"].map(|name| {
        let rule = UnmaskRule::from_name(name).unwrap_or_default();
        let mode = DecodeMode::Diffusion(DiffusionParams { rule, ..DiffusionParams::default() });
        (format!("diffusion, {name}"), mode)
    });
    let reuse = DiffusionParams { reuse: true, ..DiffusionParams::default() };
    let reuse = ("diffusion, 0.9, K/V reused".to_owned(), DecodeMode::Diffusion(reuse));
    let all = lossless.chain(blocks).chain(others).chain([reuse]);
    all.filter(|(_, mode)| frontend.engine().check_mode(*mode).is_ok()).collect()
}

/// Results of one mode over all turns.
#[derive(Default)]
struct ModeResult {
    responses: Vec<Vec<TokenId>>,
    work: DecodeStats,
    tokens: usize,
    seconds: Vec<f64>,
}

fn modes(
    frontend: &Frontend,
    turns: usize,
    max_tokens: usize,
    progress: &dyn Fn(&str),
) -> Result<Vec<ModeCase>> {
    let cases = cases(frontend);
    let mut done: Vec<ModeResult> = cases.iter().map(|_| ModeResult::default()).collect();
    for turn in 0..turns.max(1) {
        for ((name, mode), done) in cases.iter().zip(&mut done) {
            progress(&format!("{name}, turn {}", turn + 1));
            let start = Instant::now();
            let responses: Result<Vec<_>> =
                PROMPTS.iter().map(|text| respond(frontend, text, *mode, max_tokens)).collect();
            done.seconds.push(start.elapsed().as_secs_f64());
            let responses = responses?;
            if turn == 0 {
                for (ids, work) in &responses {
                    done.tokens += ids.len();
                    done.work.passes += work.passes;
                    done.work.rows += work.rows;
                    done.work.drafted += work.drafted;
                    done.work.accepted += work.accepted;
                }
                done.responses = responses.into_iter().map(|(ids, _)| ids).collect();
            }
        }
    }
    let first = done[0].tokens as f64 / quantile(&done[0].seconds, 0.5);
    let baseline = done[0].responses.clone();
    let case = |((name, _), done): (&(String, DecodeMode), &ModeResult)| -> Result<ModeCase> {
        let tok_s = done.tokens as f64 / quantile(&done.seconds, 0.5);
        let passes = done.work.passes.max(1) as f64;
        let drafted = done.work.drafted;
        Ok(ModeCase {
            decode: name.clone(),
            tokens: done.tokens,
            tokens_per_pass: done.tokens as f64 / passes,
            rows_per_pass: done.work.rows as f64 / passes,
            accepted: (drafted > 0).then(|| done.work.accepted as f64 / drafted as f64),
            tok_s,
            speedup: tok_s / first,
            nll: mean_nll(frontend, &done.responses)?,
            same_replies: done.responses == baseline,
        })
    };
    cases.iter().zip(&done).map(case).collect()
}

fn input(frontend: &Frontend, text: &str) -> PromptInput {
    match frontend.text().template {
        Some(_) => PromptInput::Chat(vec![ChatMessage::new("user", text)]),
        None => PromptInput::Text(text.to_owned()),
    }
}

fn respond(
    frontend: &Frontend,
    text: &str,
    decode: DecodeMode,
    max_tokens: usize,
) -> Result<(Vec<TokenId>, DecodeStats)> {
    // Every turn must prefill its prompt.
    frontend.engine().flush_cache();
    let generate = GenerationRequest {
        decode,
        max_tokens: Some(max_tokens),
        ..GenerationRequest::new(input(frontend, text))
    };
    let mut stream = frontend.generate(generate)?;
    for event in stream.by_ref() {
        event?;
    }
    Ok((stream.ids().to_vec(), stream.timings().stats))
}

/// Returns the mean of −ln p over all tokens of the responses under autoregressive decoding; `None` if
/// the model does not support it.
fn mean_nll(frontend: &Frontend, responses: &[Vec<TokenId>]) -> Result<Option<f64>> {
    if frontend.engine().check_mode(DecodeMode::Autoregressive).is_err() {
        return Ok(None);
    }
    let (mut sum, mut count) = (0.0, 0);
    for (text, response) in PROMPTS.iter().zip(responses) {
        let mut ids = frontend.text().prompt_ids(&input(frontend, text))?;
        let prompt_len = ids.len();
        ids.extend(response);
        let limits = Limits { max_tokens: 0, ..Limits::default() };
        let request =
            Request { prompt: ids, prompt_logprobs: Some(0), limits, ..Request::default() };
        let mut events = frontend.engine().submit(request)?;
        let mut logprobs = Vec::new();
        loop {
            match events.next_blocking().context("the engine has stopped")? {
                Event::PromptLogprobs(more) => logprobs.extend(more.iter().map(|one| one.logprob)),
                Event::Done(_) => break,
                _ => {}
            }
        }
        // The first token has no log probability.
        let of_response = logprobs.iter().skip(prompt_len - 1).copied().map(f64::from);
        sum -= of_response.clone().sum::<f64>();
        count += of_response.count();
    }
    Ok((count > 0).then(|| sum / count as f64))
}

/// Times passes of different sizes, alternating.
fn passes(network: &mut Network, plan: &Plan, progress: &dyn Fn(&str)) -> Vec<PassCost> {
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); ROWS.len()];
    let turns = plan.passes.max.max(2);
    for turn in 0..turns {
        progress(&format!("passes over several rows, turn {}", turn + 1));
        for (rows, seconds) in ROWS.iter().zip(&mut seconds) {
            let once = network.rows_run(CONTEXT, *rows);
            if turn > 0 {
                seconds.push(once);
            }
        }
    }
    let one = quantile(&seconds[0], 0.5);
    let cost = |(&rows, seconds): (&usize, &Vec<f64>)| {
        let median = quantile(seconds, 0.5);
        PassCost { rows, ms: median * 1e3, ratio: median / one }
    };
    ROWS.iter().zip(&seconds).map(cost).collect()
}
