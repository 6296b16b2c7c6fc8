//! Whether two models give the same scores.
//!
//! Equal tensors are not enough: a wrong constant or a swapped pair of tensors shows only when the
//! network runs. The two are loaded one after the other, so that they need not fit in memory together.

use anyhow::Result;
use serde::Serialize;
use wf_engine::{RunOptions, TokenId, load_model, read_text};
use wf_formats::ModelFile;
use wf_model::{HeadMode, Layout, SparseMode};

use super::tensors::Tensors;
use crate::eval::score;

/// Tokens that are run.
const TOKENS: usize = 16;
/// What they come from where the model has a tokenizer.
const TEXT: &str =
    "Once upon a time, there was a little girl who lived in a big house with her dog.";
/// The least likeness of scores where weights were rounded to eight bits or more, and to four.
const ROUNDED: f64 = 0.999;
const COARSE: f64 = 0.99;

/// How alike the scores of two models are.
#[derive(Serialize)]
pub(super) struct Probe {
    tokens: usize,
    /// Whether every score is equal, bit for bit.
    equal: bool,
    /// The lowest cosine between the scores at a position.
    cosine: f64,
    /// The lowest that is allowed; nothing if scores must be equal.
    bound: Option<f64>,
    /// Positions at which the best token is the same.
    same_best: usize,
}

impl Probe {
    /// What is wrong with the scores, if something is.
    pub(super) fn fault(&self) -> Option<String> {
        match self.bound {
            _ if self.equal => None,
            Some(bound) if self.cosine >= bound => None,
            Some(bound) => Some(format!(
                "scores have a cosine of {:.6}, at least {bound} is allowed",
                self.cosine
            )),
            None => Some("every number is equal, but the scores are not".to_owned()),
        }
    }

    pub(super) fn summary(&self) -> String {
        let Self { tokens, equal, cosine, same_best, .. } = self;
        if *equal {
            return format!("scores of {tokens} tokens equal, bit for bit");
        }
        let bound = self.bound.map_or(String::new(), |bound| format!(" (allowed from {bound})"));
        format!(
            "scores of {tokens} tokens: cosine {cosine:.6}{bound}, best token equal {same_best} times"
        )
    }
}

/// Runs the same tokens through both models.
pub(super) fn compare(
    first: &ModelFile,
    second: &ModelFile,
    tensors: &Tensors,
    threads: usize,
) -> Result<Probe> {
    let ids = tokens(first);
    let (ours, theirs) = (scores(first, &ids, threads)?, scores(second, &ids, threads)?);
    let rows = || ours.iter().zip(&theirs);
    let bits = |scores: &[f32]| scores.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
    let bound = if tensors.is_coarse { COARSE } else { ROUNDED };
    Ok(Probe {
        tokens: ids.len(),
        equal: rows().all(|(a, b)| bits(a) == bits(b)),
        cosine: rows().map(|(a, b)| cosine(a, b)).fold(1.0, f64::min),
        bound: tensors.rounding().map(|_| bound),
        same_best: rows().filter(|(a, b)| best(a) == best(b)).count(),
    })
}

/// Tokens of a text, or some of all over the vocabulary.
fn tokens(file: &ModelFile) -> Vec<TokenId> {
    let len = TOKENS.min(file.config().context_len);
    if let Ok(text) = read_text(file) {
        let ids = text.tokenizer.encode(TEXT);
        if ids.len() >= len {
            return ids[..len].to_vec();
        }
    }
    let vocab_len = file.config().vocab_len as u64;
    // Fibonacci hashing: consecutive numbers land far apart.
    (1..=len as u64)
        .map(|i| (i.wrapping_mul(11_400_714_819_323_198_485) % vocab_len) as TokenId)
        .collect()
}

fn scores(file: &ModelFile, ids: &[TokenId], threads: usize) -> Result<Vec<Vec<f32>>> {
    let options = RunOptions {
        threads,
        context_len: Some(ids.len().max(2)),
        // Not worth a measurement of which layout is faster.
        layout: Some(Layout::QuadLines),
        head: HeadMode::Full,
        sparse: SparseMode::Off,
        ..RunOptions::default()
    };
    // What has been read into the model need not stay mapped too.
    let mut model = load_model(file, &options, &mut |_| file.release())?;
    let mut rows = Vec::new();
    score(&mut model, ids, |_, scores| rows.push(scores.to_vec()))?;
    Ok(rows)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

fn best(scores: &[f32]) -> Option<usize> {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a)))
}
