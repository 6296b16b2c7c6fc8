//! Compares the logits of two models.
//!
//! Equal tensors are not enough: a wrong constant or swapped tensors show only when the network runs.
//! The models are loaded one after the other, so that they need not fit into memory together.

use anyhow::Result;
use serde::Serialize;
use wf_core::{RotaryPairs, ValueHeadOrder};
use wf_engine::{RunOptions, TokenId, load_model, read_text};
use wf_formats::{ModelFile, TensorName};
use wf_lab::eval::{cosine, score};
use wf_model::{HeadMode, KvDtype, Layout, SparseMode};

use super::tensors::Tensors;

const TOKENS: usize = 16;
/// Text of the tokens, if the model has a tokenizer.
const TEXT: &str =
    "Once upon a time, there was a little girl who lived in a big house with her dog.";
/// Minimum cosine if weights were rounded to eight bits or more.
const ROUNDED: f64 = 0.999;
/// Minimum cosine if heads have another order, or their rotary pairs: sums run in another order, after which codes of
/// activations round differently.
const REORDERED: f64 = 0.999;
/// Minimum cosine if weights were rounded to four bits.
const COARSE: f64 = 0.99;
/// Minimum cosine if only one of the output heads is ternary: it multiplies codes of hidden states.
const OTHER_HEAD: f64 = 0.999_999;

/// The similarity of the logits of two models.
#[derive(Serialize)]
pub(super) struct Probe {
    tokens: usize,
    /// True if all logits are equal, bit for bit.
    equal: bool,
    /// Minimum over positions of the cosine between logits.
    cosine: f64,
    /// Minimum allowed cosine; `None` if logits must be equal.
    bound: Option<f64>,
    /// Number of positions with the same likeliest token.
    same_best: usize,
}

impl Probe {
    /// Returns why the logits are too different, if they are.
    pub(super) fn fault(&self) -> Option<String> {
        match self.bound {
            _ if self.equal => None,
            Some(bound) if self.cosine >= bound => None,
            Some(bound) => Some(format!(
                "the cosine of the logits is {:.6}: must be at least {bound}",
                self.cosine
            )),
            None => Some("all values are equal, but the logits are not".to_owned()),
        }
    }

    pub(super) fn summary(&self) -> String {
        let Self { tokens, equal, cosine, same_best, .. } = self;
        if *equal {
            return format!("logits of {tokens} tokens equal, bit for bit");
        }
        let bound = self.bound.map_or(String::new(), |bound| format!(" (minimum {bound})"));
        format!(
            "logits of {tokens} tokens: cosine {cosine:.6}{bound}, same likeliest token {same_best} times"
        )
    }
}

pub(super) fn compare(
    first: &ModelFile,
    second: &ModelFile,
    tensors: &Tensors,
    threads: usize,
) -> Result<Probe> {
    let ids = tokens(first);
    let (ours, theirs) = (logits(first, &ids, threads)?, logits(second, &ids, threads)?);
    let rows = || ours.iter().zip(&theirs);
    let bits = |logits: &[f32]| logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>();
    let rounded = if tensors.is_coarse { COARSE } else { ROUNDED };
    let rounding = tensors.rounding().map(|_| rounded);
    let is_reordered = pairs(first) != pairs(second) || value_heads(first) != value_heads(second);
    let reordered = is_reordered.then_some(REORDERED);
    let same_head = has_ternary_head(first) == has_ternary_head(second);
    Ok(Probe {
        tokens: ids.len(),
        equal: rows().all(|(a, b)| bits(a) == bits(b)),
        cosine: rows().map(|(a, b)| cosine(a, b)).fold(1.0, f64::min),
        bound: rounding.or(reordered).or((!same_head).then_some(OTHER_HEAD)),
        same_best: rows().filter(|(a, b)| best(a) == best(b)).count(),
    })
}

fn pairs(file: &ModelFile) -> Option<RotaryPairs> {
    file.network().layers.iter().find_map(|layer| Some(layer.rope()?.pairs))
}

/// Returns the order of the value heads of recurrent mixers.
fn value_heads(file: &ModelFile) -> Option<ValueHeadOrder> {
    file.network().layers.iter().find_map(|layer| Some(layer.delta_net()?.order))
}

fn has_ternary_head(file: &ModelFile) -> bool {
    let name = if file.network().head.tied { TensorName::Embedding } else { TensorName::Output };
    file.tensor(name).is_some_and(|info| info.encoding.is_ternary())
}

/// Returns the tokens of a text, or else tokens spread over the vocabulary.
fn tokens(file: &ModelFile) -> Vec<TokenId> {
    let len = TOKENS.min(file.info().context_len);
    if let Ok(text) = read_text(file) {
        let ids = text.tokenizer.encode(TEXT);
        if ids.len() >= len {
            return ids[..len].to_vec();
        }
    }
    let vocab_len = file.network().vocab_len as u64;
    // Fibonacci hashing: consecutive numbers land far apart.
    (1..=len as u64)
        .map(|i| (i.wrapping_mul(11_400_714_819_323_198_485) % vocab_len) as TokenId)
        .collect()
}

fn logits(file: &ModelFile, ids: &[TokenId], threads: usize) -> Result<Vec<Vec<f32>>> {
    let options = RunOptions {
        threads,
        // Rounding K and V must not hide a difference.
        kv: KvDtype::F32,
        context_len: Some(ids.len().max(2)),
        // Not worth measuring which layout is faster.
        layout: Some(Layout::QuadLines),
        head: HeadMode::Full,
        sparse: SparseMode::Off,
        ..RunOptions::default()
    };
    // Tensors already loaded need not stay mapped.
    let mut model = load_model(file, &options, &mut |_| file.release())?;
    let mut rows = Vec::new();
    score(&mut model, ids, |_, logits| rows.push(logits.to_vec()))?;
    Ok(rows)
}

fn best(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)))
}
