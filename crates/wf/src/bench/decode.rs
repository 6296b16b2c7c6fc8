//! `wf bench --decode`: what each way to decode gains, and what a pass of several rows costs.
//!
//! Every mode answers the same prompts, in turns, so that a noisy machine is noisy for all of them.
//! What it writes is scored by the model token by token: how surprised the autoregressive model is
//! of the text is what a faster mode may cost.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use wf_engine::{
    DecodeMode, Diffusion, Event, Frontend, Generate, Input, Limits, Request, Rule, RunOptions,
    TokenId, Work, open_with_draft,
};
use wf_text::ChatMessage;

use super::args::BenchArgs;
use super::network::Network;
use super::plan::Plan;
use super::stats::quantile;
use super::subject::Subject;
use crate::{demo, memory, open};

/// What the demo model can talk about.
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

/// Rows of a pass.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Tokens before those rows.
const CONTEXT: usize = 128;

/// Everything `--decode` found.
#[derive(Debug, Serialize)]
pub(super) struct DecodeReport {
    pub(super) model: String,
    pub(super) threads: usize,
    pub(super) modes: Vec<ModeCase>,
    pub(super) pass_model: String,
    pub(super) passes: Vec<PassCost>,
}

/// One way to decode.
#[derive(Debug, Serialize)]
pub(super) struct ModeCase {
    pub(super) decode: String,
    pub(super) tokens: usize,
    pub(super) tokens_per_pass: f64,
    pub(super) rows_per_pass: f64,
    /// Of guesses that were checked, those that were right.
    pub(super) accepted: Option<f64>,
    pub(super) tok_s: f64,
    pub(super) speedup: f64,
    /// Mean surprise of the autoregressive model, in nats a token.
    pub(super) nll: Option<f64>,
    /// Whether every reply is the autoregressive one.
    pub(super) same_replies: bool,
}

/// A pass of several rows, every one of them scored.
#[derive(Debug, Serialize)]
pub(super) struct PassCost {
    pub(super) rows: usize,
    pub(super) ms: f64,
    /// Beside a pass of one row.
    pub(super) ratio: f64,
}

/// Measures both.
pub(super) fn measure(args: &BenchArgs, plan: &mut Plan) -> Result<DecodeReport> {
    let options = RunOptions {
        head: args.head.head,
        sparse: args.head.sparse,
        ..args.compute.options(&args.file)
    };
    let source = match &args.model {
        Some(model) => open::source(Some(model))?,
        None => demo::SOURCE,
    };
    let model = Subject::File(source.clone()).name();
    let draft = args.draft.as_deref().map(|draft| open::source(Some(draft))).transpose()?;
    let opened = open_with_draft(&source, draft.as_ref(), &options, &mut |_| {})?;
    let modes = modes(&opened.frontend, plan.turns.min(5), reply_tokens(args))?;
    drop(opened);

    let subject = Subject::choose(args, memory::free())?;
    plan.least_positions = plan.least_positions.max(CONTEXT + 2 * ROWS[ROWS.len() - 1]);
    let network = subject.load(&options, plan)?;
    let positions = CONTEXT + ROWS[ROWS.len() - 1];
    let mut network = Network::new(network, options.kv, options.max_batch_tokens, positions);
    Ok(DecodeReport {
        model,
        threads: options.threads,
        modes,
        pass_model: subject.name(),
        passes: passes(&mut network, plan),
    })
}

fn reply_tokens(args: &BenchArgs) -> usize {
    if args.smoke { 8 } else { 96 }
}

/// The modes that a model can do, the first of them its natural one.
fn cases(frontend: &Frontend) -> Vec<(String, DecodeMode)> {
    let lossless = ["autoregressive", "lookup", "drafted", "drafted+lookup"];
    let lossless = lossless.map(|name| (name.to_owned(), DecodeMode::named(name)));
    let blocks = [0.5, 0.7, 0.9, 0.95, 1.0].map(|threshold| {
        let rule = Rule::Threshold(threshold);
        let mode = DecodeMode::Diffusion(Diffusion { rule, ..Diffusion::default() });
        (format!("diffusion, threshold {threshold}"), Some(mode))
    });
    let others = ["factor", "entropy", "adaptive", "single"].map(|name| {
        let rule = Rule::named(name, None, None).unwrap_or_default();
        let mode = DecodeMode::Diffusion(Diffusion { rule, ..Diffusion::default() });
        (format!("diffusion, {name}"), Some(mode))
    });
    let reuse = Diffusion { reuse: true, ..Diffusion::default() };
    let reuse = ("diffusion, 0.9, K/V reused".to_owned(), Some(DecodeMode::Diffusion(reuse)));
    let all = lossless.into_iter().chain(blocks).chain(others).chain([reuse]);
    all.filter_map(|(name, mode)| Some((name, mode?)))
        .filter(|(_, mode)| frontend.engine().check_mode(*mode).is_ok())
        .collect()
}

/// What one mode did in all turns.
#[derive(Default)]
struct Done {
    replies: Vec<Vec<TokenId>>,
    work: Work,
    tokens: usize,
    seconds: Vec<f64>,
}

fn modes(frontend: &Frontend, turns: usize, max_tokens: usize) -> Result<Vec<ModeCase>> {
    let cases = cases(frontend);
    let mut done: Vec<Done> = cases.iter().map(|_| Done::default()).collect();
    for turn in 0..turns.max(1) {
        for ((name, mode), done) in cases.iter().zip(&mut done) {
            super::told(&format!("{name}, turn {}", turn + 1));
            let start = Instant::now();
            let replies: Result<Vec<_>> =
                PROMPTS.iter().map(|text| reply(frontend, text, *mode, max_tokens)).collect();
            done.seconds.push(start.elapsed().as_secs_f64());
            let replies = replies?;
            if turn == 0 {
                for (ids, work) in &replies {
                    done.tokens += ids.len();
                    done.work.passes += work.passes;
                    done.work.rows += work.rows;
                    done.work.drafted += work.drafted;
                    done.work.agreed += work.agreed;
                }
                done.replies = replies.into_iter().map(|(ids, _)| ids).collect();
            }
        }
    }
    let plain = done[0].tokens as f64 / quantile(&done[0].seconds, 0.5);
    let natural = done[0].replies.clone();
    let case = |((name, _), done): (&(String, DecodeMode), &Done)| -> Result<ModeCase> {
        let tok_s = done.tokens as f64 / quantile(&done.seconds, 0.5);
        let passes = done.work.passes.max(1) as f64;
        let drafted = done.work.drafted;
        Ok(ModeCase {
            decode: name.clone(),
            tokens: done.tokens,
            tokens_per_pass: done.tokens as f64 / passes,
            rows_per_pass: done.work.rows as f64 / passes,
            accepted: (drafted > 0).then(|| done.work.agreed as f64 / drafted as f64),
            tok_s,
            speedup: tok_s / plain,
            nll: surprise(frontend, &done.replies)?,
            same_replies: done.replies == natural,
        })
    };
    cases.iter().zip(&done).map(case).collect()
}

fn input(frontend: &Frontend, text: &str) -> Input {
    match frontend.text().template {
        Some(_) => Input::Chat(vec![ChatMessage::new("user", text)]),
        None => Input::Raw(text.to_owned()),
    }
}

fn reply(
    frontend: &Frontend,
    text: &str,
    decode: DecodeMode,
    max_tokens: usize,
) -> Result<(Vec<TokenId>, Work)> {
    // Each turn reads its prompt anew.
    frontend.engine().flush_cache();
    let generate =
        Generate { decode, max_tokens: Some(max_tokens), ..Generate::new(input(frontend, text)) };
    let mut stream = frontend.generate(generate)?;
    for piece in stream.by_ref() {
        piece?;
    }
    Ok((stream.ids().to_vec(), stream.timings().work))
}

/// The mean of −ln p over all tokens of the replies, by the model token by token; nothing if it cannot.
fn surprise(frontend: &Frontend, replies: &[Vec<TokenId>]) -> Result<Option<f64>> {
    if frontend.engine().check_mode(DecodeMode::Autoregressive).is_err() {
        return Ok(None);
    }
    let (mut sum, mut count) = (0.0, 0);
    for (text, reply) in PROMPTS.iter().zip(replies) {
        let mut ids = frontend.text().prompt_ids(&input(frontend, text))?;
        let prompt_len = ids.len();
        ids.extend(reply);
        let limits = Limits { max_tokens: 0, ..Limits::default() };
        let request =
            Request { prompt: ids, prompt_logprobs: Some(0), limits, ..Request::default() };
        let mut events = frontend.engine().submit(request)?;
        let mut told = Vec::new();
        loop {
            match events.next_blocking().context("the engine stopped")? {
                Event::PromptLogprobs(more) => told.extend(more.iter().map(|one| one.logprob)),
                Event::Done(_) => break,
                _ => {}
            }
        }
        // The first token has nothing before it, so nothing is told of it.
        let of_reply = told.iter().skip(prompt_len - 1).copied().map(f64::from);
        sum -= of_reply.clone().sum::<f64>();
        count += of_reply.count();
    }
    Ok((count > 0).then(|| sum / count as f64))
}

/// Passes of different sizes, in turns.
fn passes(network: &mut Network, plan: &Plan) -> Vec<PassCost> {
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); ROWS.len()];
    let turns = plan.passes.most.max(2);
    for turn in 0..turns {
        super::told(&format!("passes of several rows, turn {}", turn + 1));
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
