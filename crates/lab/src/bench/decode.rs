//! The speedup of each decoding mode, and the cost of a pass over several rows.
//!
//! All modes generate responses to the same prompts, alternating, so that noise of the machine affects
//! all of them. The quality of a response is its mean negative log likelihood under autoregressive
//! decoding. Diffusion on the shape of `passes` is replayed (`replay.rs`).

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use wf_engine::{
    DecodeMode, DecodeStats, DiffusionParams, Event, Frontend, GenerationRequest, Limits, MODES,
    PromptInput, Request, TokenId, UnmaskRule, open_with_draft,
};
use wf_text::ChatMessage;

use super::Setup;
use super::args::BenchArgs;
use super::network::Network;
use super::plan::Plan;
use super::replay;
use super::subject::Subject;
use crate::stats::Timing;
use crate::table;

/// Prompts that the demo model can respond to.
pub(super) const PROMPTS: [&str; 8] = [
    "Hello!",
    "What is the capital of France?",
    "Tell me a story about a dragon.",
    "Who are you?",
    "Count from 1 to 20.",
    "Tell me a story about a little boat.",
    "How do I make tea?",
    "Tell me a story about a brave mouse.",
];

/// Maximum number of tokens of a response.
pub(super) const MAX_TOKENS: usize = 96;

/// Numbers of rows of a pass.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Context length of those passes.
const CONTEXT: usize = 128;

/// The results of `wf bench --decode`. Displays as tables.
#[derive(Debug, Serialize)]
pub struct DecodeReport {
    model: String,
    threads: usize,
    modes: Vec<Value>,
    pass_model: String,
    passes: Vec<Value>,
    replay: Vec<Value>,
}

impl fmt::Display for DecodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model    {}, {} threads", self.model, self.threads)?;
        let title = "decoding modes (NLL: nats per token under autoregressive decoding)";
        let headers = "decode, tokens/pass, rows/pass, accepted, tok/s, × first, NLL, same text";
        table::write(f, title, &self.modes, headers)?;
        let title = format!("passes over several rows, {}", self.pass_model);
        table::write(f, &title, &self.passes, "rows, ms, × one row")?;
        let title =
            format!("diffusion that fills masks as the demo model does, {}", self.pass_model);
        table::write(f, &title, &self.replay, "decode, tokens/pass, rows/pass, tok/s, × first")
    }
}

pub(super) fn measure(
    args: &BenchArgs,
    setup: &Setup<'_>,
    plan: &mut Plan,
) -> Result<DecodeReport> {
    let options = &setup.options;
    let source = setup.model.clone().unwrap_or(setup.demo.clone());
    let opened = open_with_draft(&source, setup.draft.as_ref(), options, &mut |_| {})?;
    let max_tokens = if args.smoke { 8 } else { MAX_TOKENS };
    let modes = modes(&opened.frontend, plan.turns.min(5), max_tokens, setup.progress)?;
    drop(opened);

    let subject = Subject::choose(args, setup);
    plan.min_positions = plan.min_positions.max(replay::POSITIONS);
    let network = subject.load(setup, plan)?;
    let positions = CONTEXT + ROWS[ROWS.len() - 1];
    let mut network = Network::new(network, options.kv, options.max_batch_tokens, positions);
    Ok(DecodeReport {
        model: Subject::File(source).name(),
        threads: options.threads,
        modes,
        pass_model: subject.name(),
        passes: passes(&mut network, plan, setup.progress),
        replay: replay::measure(network.model, plan, setup.progress)?,
    })
}

/// Returns the modes that a model supports, starting with its default.
fn cases(frontend: &Frontend) -> Vec<(String, DecodeMode)> {
    let lossless = MODES.into_iter().filter(DecodeMode::is_left_to_right);
    let lossless = lossless.map(|mode| (mode.name().to_owned(), mode));
    let thresholds = [0.5, 0.7, 0.9, 0.95, 1.0]
        .map(|threshold| (format!("threshold {threshold}"), UnmaskRule::Threshold(threshold)));
    let others = ["factor", "entropy", "adaptive", "single"]
        .map(|name| (name.to_owned(), UnmaskRule::from_name(name).unwrap_or_default()));
    let default = DiffusionParams::default;
    let rules = thresholds.into_iter().chain(others);
    let blocks = rules.map(|(name, rule)| (name, DiffusionParams { rule, ..default() }));
    let reuse = ("0.9, K/V reused".to_owned(), DiffusionParams { reuse: true, ..default() });
    let blocks = blocks.chain([reuse]);
    let blocks =
        blocks.map(|(name, params)| (format!("diffusion, {name}"), DecodeMode::Diffusion(params)));
    let all = lossless.chain(blocks);
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

impl ModeResult {
    fn tok_s(&self) -> f64 {
        Timing::of(self.seconds.clone()).per_second(self.tokens)
    }

    /// Returns the row of the mode called `name`, compared with the first mode.
    fn row(&self, name: &str, first: &Self, nll: Option<f64>) -> Value {
        let DecodeStats { passes, rows, drafted, accepted } = self.work;
        let per_pass = |count: usize| count as f64 / passes.max(1) as f64;
        json!({
            "decode": name,
            "tokens": self.tokens,
            "tokens_per_pass": per_pass(self.tokens),
            "rows_per_pass": per_pass(rows),
            "accepted": (drafted > 0).then(|| accepted as f64 / drafted as f64),
            "tok_s": self.tok_s(),
            "speedup": self.tok_s() / first.tok_s(),
            "nll": nll,
            "same_replies": self.responses == first.responses,
        })
    }
}

fn modes(
    frontend: &Frontend,
    turns: usize,
    max_tokens: usize,
    progress: &dyn Fn(&str),
) -> Result<Vec<Value>> {
    let cases = cases(frontend);
    let mut done: Vec<ModeResult> = cases.iter().map(|_| ModeResult::default()).collect();
    for turn in 0..turns.max(1) {
        for ((name, mode), done) in cases.iter().zip(&mut done) {
            progress(&format!("{name}, turn {}", turn + 1));
            let start = Instant::now();
            let responses: Result<Vec<_>> =
                PROMPTS.iter().map(|text| respond(frontend, text, *mode, max_tokens)).collect();
            done.seconds.push(start.elapsed().as_secs_f64());
            for (ids, work) in responses?.into_iter().filter(|_| turn == 0) {
                done.tokens += ids.len();
                done.work += work;
                done.responses.push(ids);
            }
        }
    }
    let row = |((name, _), result): (&(String, DecodeMode), &ModeResult)| {
        Ok(result.row(name, &done[0], mean_nll(frontend, &result.responses)?))
    };
    cases.iter().zip(&done).map(row).collect()
}

pub(super) fn input(frontend: &Frontend, text: &str) -> PromptInput {
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

/// Times passes of different sizes, alternating, with logits for each row.
fn passes(network: &mut Network, plan: &Plan, progress: &dyn Fn(&str)) -> Vec<Value> {
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); ROWS.len()];
    // The first turn is a warm-up.
    for turn in 0..plan.passes.max.max(2) {
        progress(&format!("passes over several rows, turn {}", turn + 1));
        for (rows, seconds) in ROWS.iter().zip(&mut seconds) {
            let once = network.rows_run(CONTEXT, *rows);
            seconds.extend((turn > 0).then_some(once));
        }
    }
    let medians: Vec<f64> = seconds.into_iter().map(|all| Timing::of(all).seconds).collect();
    let row = |(rows, median): (&usize, &f64)| json!({"rows": rows, "ms": median * 1e3, "ratio": median / medians[0]});
    ROWS.iter().zip(&medians).map(row).collect()
}
