//! The cost of decoding by context, dense and with `--attention`.
//!
//! A context is not computed: its keys and values are random rows, because a prompt of 32,768 tokens takes
//! minutes and reading it does not depend on the values. Both modes read the same pages, and steps
//! alternate, so that noise of the machine affects both.

use std::fmt;

use anyhow::{Error, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use wf_engine::window_pages;
use wf_model::{AttentionMode, Forward, KvPool, Model, PAGE_LEN};

use super::Setup;
use super::args::BenchArgs;
use super::network::Network;
use super::plan::Plan;
use super::subject::Subject;
use crate::random::Random;
use crate::stats::Timing;
use crate::table;

/// Contexts of a run without `--contexts`.
const CONTEXTS: [usize; 3] = [8192, 16_384, 32_768];

/// Random rows of keys and values that a context is filled with: no whole number of pages, so that pages
/// differ.
const ROWS: usize = 251;

/// The results of `wf bench --attention`. Displays as a table.
#[derive(Debug, Serialize)]
pub struct AttentionReport {
    model: String,
    threads: usize,
    kv: String,
    attention: String,
    /// Size of what the mode keeps with the pages of the longest context, in bytes.
    summaries_bytes: usize,
    /// Size of the pages that a sequence has at most, if it is limited, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_bytes: Option<usize>,
    decode: Vec<Value>,
}

impl fmt::Display for AttentionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model    {}, {} threads, K/V in {}", self.model, self.threads, self.kv)?;
        match self.kept_bytes {
            None => {
                writeln!(f, "pages    summaries take {:.1} MB", self.summaries_bytes as f64 / 1e6)?;
            }
            Some(bytes) => {
                let size = bytes as f64 / 1e6;
                writeln!(f, "pages    a sequence of any length takes at most {size:.1} MB")?;
            }
        }
        let title = format!("decode: one sequence, dense and {}, alternating", self.attention);
        let headers = "context, dense ms, sparse ms, dense tok/s, sparse tok/s, × dense, spread";
        table::write(f, &title, &self.decode, headers)
    }
}

pub(super) fn measure(args: &BenchArgs, setup: &Setup<'_>) -> Result<AttentionReport> {
    let options = &setup.options;
    let contexts = args.contexts.clone().unwrap_or_else(|| CONTEXTS.to_vec());
    let mut plan = Plan::new(args);
    plan.measure_contexts(&contexts);
    let subject = Subject::choose(args, setup);
    let mut model = subject.load(setup, &plan)?;
    let positions = (model.pages() * PAGE_LEN).min(model.info().context_len);
    options.attention.check(model.network(), positions).map_err(Error::msg)?;
    model.set_attention(options.attention);
    let size = |mode| KvPool::size_for_mode(model.network(), options.kv, model.pages(), mode);
    let summaries_bytes = size(options.attention) - size(AttentionMode::Dense);
    let kept_bytes = options.attention.window().map(|window| {
        let pages = window_pages(window, options.max_batch_tokens);
        KvPool::size_bytes(model.network(), options.kv, pages)
    });
    let mut network = Network::new(model, options.kv, options.max_batch_tokens, positions);
    let decode = rows_by_context(&mut network, setup, &plan, &contexts, |model, way| {
        model.read_all_pages(way == 0);
    })?;
    Ok(AttentionReport {
        model: subject.name(),
        threads: options.threads,
        kv: options.kv.to_string(),
        attention: options.attention.to_string(),
        summaries_bytes,
        kept_bytes,
        decode,
    })
}

/// Times steps at each context, alternating: `switch` sets the model up without the mode (0) and with it (1).
pub(super) fn rows_by_context(
    network: &mut Network,
    setup: &Setup<'_>,
    plan: &Plan,
    contexts: &[usize],
    mut switch: impl FnMut(&mut Model, usize),
) -> Result<Vec<Value>> {
    let positions = (network.model.pages() * PAGE_LEN).min(network.model.info().context_len);
    let mut rows = Vec::new();
    for &context in contexts {
        ensure!(
            context + 1 < positions,
            "context {context} is too long: this model has room for {}",
            positions.saturating_sub(2)
        );
        (setup.progress)(&format!("decode at context {context}"));
        let kv_len = network.model.network().max_attention(wf_core::Attention::kv_len);
        network.fill_with(context, &Random::new(1, 0).floats(ROWS * kv_len));
        rows.push(row(context, network.decode_both_ways(context, plan.passes, &mut switch)));
    }
    Ok(rows)
}

fn row(context: usize, [dense, sparse]: [Vec<f64>; 2]) -> Value {
    // The ratio of neighbouring steps, which the machine ran under the same conditions.
    let ratios = dense.iter().zip(&sparse).map(|(dense, sparse)| dense / sparse).collect();
    let (dense, sparse, ratio) = (Timing::of(dense), Timing::of(sparse), Timing::of(ratios));
    json!({
        "context": context,
        "dense_ms": dense.seconds * 1e3,
        "sparse_ms": sparse.seconds * 1e3,
        "dense_tok_s": dense.per_second(1),
        "sparse_tok_s": sparse.per_second(1),
        "ratio": ratio.seconds,
        "spread": ratio.spread,
    })
}
