//! Speed of diffusion on any network, with the acceptance of a recorded one.
//!
//! The engine decodes as always: its decoder plans blocks of masks, the network runs them, and the
//! sampler reads the logits. Only then a prediction is made certain or uncertain, as it was in the
//! recording, so that every pass fills the masks that the recorded one filled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wf_core::Network;
use wf_engine::{
    DecodeMode, DecodeStats, DiffusionParams, EngineHandle, EngineOptions, Event, Limits, Request,
    TokenId,
};
use wf_formats::ModelInfo;
use wf_model::{
    AttentionMode, BlockDiffusion, Forward, HiddenStates, LayerSparsity, Logits, Segment,
    Visibility,
};

use super::plan::Plan;
use super::trace::{Completion, KEPT, Trace};
use crate::random::Random;

/// Number of positions that a replay needs.
pub(super) const POSITIONS: usize = 256;

/// Time of a replay, in budgets of a repeated pass.
const BUDGETS: u32 = 8;

/// Distance of the logit of a certain token from all others. With any vocabulary, its probability is close to 1.
const CERTAIN: f32 = 30.0;

/// The passes that are still to be replayed.
type Script = Arc<Mutex<VecDeque<String>>>;

/// A network whose predictions of masks are as certain as a script says.
struct Scripted<F> {
    model: F,
    script: Script,
}

impl<F: Forward> Forward for Scripted<F> {
    fn network(&self) -> &Network {
        self.model.network()
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn attention(&self) -> AttentionMode {
        self.model.attention()
    }

    fn max_batch_tokens(&self) -> usize {
        self.model.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.model.pages()
    }

    fn enter_thread(&self) {
        self.model.enter_thread();
    }

    fn total_sparsity(&self) -> LayerSparsity {
        self.model.total_sparsity()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        let hidden = self.model.forward(batch, logits);
        let [Segment { visibility: Visibility::Until(end), scored, .. }] = batch else {
            return hidden;
        };
        let pass = lock(&self.script).pop_front().unwrap_or_default();
        for (row, kept) in (0..scored.len()).zip(pass.chars()) {
            script_row(logits.rows_mut(row, 1), end + row, kept == KEPT);
        }
        hidden
    }
}

/// Makes a token certain, or two tokens equally probable.
fn script_row(row: &mut [f32], salt: usize, is_certain: bool) {
    // Neither is the mask, which is the last token.
    let token = salt * 7919 % (row.len() - 2);
    let top = row.iter().copied().fold(f32::MIN, f32::max) + CERTAIN;
    row[token] = top;
    row[token + 1] = if is_certain { row[token + 1] } else { top };
}

fn lock(script: &Script) -> std::sync::MutexGuard<'_, VecDeque<String>> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Results of one mode over all completions so far.
#[derive(Default)]
struct Total {
    tokens: usize,
    work: DecodeStats,
    seconds: f64,
}

impl Total {
    fn row(&self, mode: &str, first: &Self) -> Value {
        let tok_s = |total: &Self| total.tokens as f64 / total.seconds;
        let per_pass = |count: usize| count as f64 / self.work.passes.max(1) as f64;
        json!({
            "decode": mode,
            "tokens": self.tokens,
            "tokens_per_pass": per_pass(self.tokens),
            "rows_per_pass": per_pass(self.work.rows),
            "tok_s": tok_s(self),
            "speedup": tok_s(self) / tok_s(first),
        })
    }
}

/// Generates the completions of the built-in trace, token by token and by diffusion, alternating, for
/// as long as the plan allows.
pub(super) fn measure(
    model: impl Forward + 'static,
    plan: &Plan,
    progress: &dyn Fn(&str),
) -> Result<Vec<Value>> {
    let trace = Trace::of_demo()?;
    let params = DiffusionParams { rule: trace.rule(), ..DiffusionParams::default() };
    let modes = [DecodeMode::Autoregressive, DecodeMode::Diffusion(params)];
    let replay = Replay::start(model, &trace)?;
    let mut totals = modes.map(|_| Total::default());
    let start = Instant::now();
    for (i, completion) in trace.completions.iter().cycle().enumerate() {
        if i >= plan.turns * trace.completions.len()
            || i > 0 && start.elapsed() > plan.passes.budget * BUDGETS
        {
            break;
        }
        for (mode, total) in modes.iter().zip(&mut totals) {
            progress(&format!("{}, replayed completion {}", mode.name(), i + 1));
            replay.run(completion, *mode, total)?;
        }
    }
    Ok(modes.iter().zip(&totals).map(|(mode, total)| total.row(mode.name(), &totals[0])).collect())
}

struct Replay {
    engine: EngineHandle,
    script: Script,
    vocab_len: usize,
}

impl Replay {
    fn start(model: impl Forward + 'static, trace: &Trace) -> Result<Self> {
        let vocab_len = model.network().vocab_len;
        let blocks = BlockDiffusion {
            mask_token: vocab_len as TokenId - 1,
            block_len: trace.block_len,
            sub_block_len: Some(trace.sub_block_len),
            token_shift: true,
            causal_context: true,
        };
        let script = Script::default();
        let options = EngineOptions { blocks: Some(blocks), ..EngineOptions::default() };
        let model = Scripted { model, script: Arc::clone(&script) };
        Ok(Self { engine: EngineHandle::start(model, options)?, script, vocab_len })
    }

    /// Generates a completion as long as the recorded one, and adds its time to `total`.
    fn run(&self, recorded: &Completion, decode: DecodeMode, total: &mut Total) -> Result<()> {
        let script =
            if decode.is_left_to_right() { VecDeque::new() } else { recorded.passes.clone() };
        *lock(&self.script) = script;
        self.engine.flush_cache();
        let prompt = Random::new(1, 0).tokens(recorded.prompt_len, self.vocab_len - 1);
        let limits = Limits { max_tokens: recorded.tokens, ..Limits::default() };
        let request = Request { prompt, limits, decode, ..Request::default() };
        let start = Instant::now();
        let mut events = self.engine.submit(request)?;
        let (mut generated, mut work) = (0, DecodeStats::default());
        loop {
            match events.next_blocking().context("the engine has stopped")? {
                Event::Tokens { tokens, stats } => {
                    generated += tokens.len();
                    work = stats;
                }
                Event::Done(_) => break,
                _ => {}
            }
        }
        total.seconds += start.elapsed().as_secs_f64();
        let left = lock(&self.script).len();
        ensure!(
            left == 0 && generated == recorded.tokens,
            "the replay of {} tokens generated {generated} and left {left} passes",
            recorded.tokens
        );
        total.tokens += generated;
        total.work += work;
        Ok(())
    }
}
