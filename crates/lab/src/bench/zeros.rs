//! The speed of decoding with `--activation-sparsity`, against the same model without.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use wf_model::{Forward, LayerZeros, PAGE_LEN, ProductInput, Zeroing};

use super::Setup;
use super::args::BenchArgs;
use super::attention::rows_by_context;
use super::network::Network;
use super::plan::Plan;
use super::subject::Subject;
use crate::table;

/// Context of a run without `--contexts`.
const CONTEXT: usize = 512;

/// The results of `wf bench --activation-sparsity`. Displays as a table.
#[derive(Debug, Serialize)]
pub struct ZerosReport {
    model: String,
    threads: usize,
    activation_sparsity: String,
    /// Projections whose columns of zeros are not read.
    skipped: Vec<&'static str>,
    /// Projections that were slower that way, or have no copies: computed in full.
    dense: Vec<&'static str>,
    /// Size of their copies in bytes.
    copies_bytes: usize,
    decode: Vec<Value>,
}

impl fmt::Display for ZerosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model    {}, {} threads", self.model, self.threads)?;
        let list =
            |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        writeln!(
            f,
            "columns  skipped in {}, which takes {:.0} MB; computed in full: {}",
            list(&self.skipped),
            self.copies_bytes as f64 / 1e6,
            list(&self.dense)
        )?;
        let title =
            format!("decode: one sequence, dense and {}, alternating", self.activation_sparsity);
        let headers = "context, dense ms, sparse ms, dense tok/s, sparse tok/s, × dense, spread";
        table::write(f, &title, &self.decode, headers)
    }
}

pub(super) fn measure(args: &BenchArgs, setup: &Setup<'_>) -> Result<ZerosReport> {
    let options = &setup.options;
    let contexts = args.contexts.clone().unwrap_or_else(|| vec![CONTEXT]);
    let mut plan = Plan::new(args);
    plan.measure_contexts(&contexts);
    let subject = Subject::choose(args, setup);
    let model = subject.load(setup, &plan)?;
    let skipped: Vec<_> = model.skipped_columns().map(ProductInput::projection).collect();
    let dense = ProductInput::ALL.map(ProductInput::projection).into_iter();
    let dense: Vec<_> = dense.filter(|name| !skipped.contains(name)).collect();
    let copies_bytes = model.columns_size_bytes();
    let zeros = model.zeros().to_vec();
    let none: Vec<LayerZeros> = vec![[Zeroing::None; 4]; zeros.len()];
    let positions = (model.pages() * PAGE_LEN).min(model.info().context_len);
    let mut network = Network::new(model, options.kv, options.max_batch_tokens, positions);
    let decode = rows_by_context(&mut network, setup, &plan, &contexts, |model, way| {
        model.set_zeros(if way == 0 { &none } else { &zeros });
        model.suspend_columns(way == 0);
    })?;
    Ok(ZerosReport {
        model: subject.name(),
        threads: options.threads,
        activation_sparsity: options.activation_sparsity.to_string(),
        skipped,
        dense,
        copies_bytes,
        decode,
    })
}
