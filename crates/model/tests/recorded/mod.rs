//! Models with logits recorded by `transformers` (`tools/golden/record.py`).

use std::path::Path;

use wf_core::ActivationCodes;
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Forward, HeadMode, KvDtype, Logits, Model, ModelOptions, PageId, Segment, SparseMode, TokenId,
};

use crate::reference::Reference;

/// Pages that a model needs for [`logits`].
const PAGES: usize = 24;

pub(crate) fn open(path: &Path) -> ModelFile {
    ModelFile::open(path, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Options with K/V as computed. Codes of activations are those of the family unless given.
pub(crate) fn options(activations: Option<ActivationCodes>) -> ModelOptions {
    ModelOptions {
        kv: KvDtype::F32,
        pages: PAGES,
        max_batch_tokens: 512,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations,
    }
}

/// Tokens and the logits of some of them, by `transformers`.
pub(crate) struct Golden {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) scored: Vec<usize>,
    pub(crate) logits: Vec<Vec<f32>>,
}

impl Golden {
    /// Reads the record at `path`, without its extension.
    pub(crate) fn read(path: &Path) -> Self {
        let reference = Reference::open(&path.with_extension("safetensors"));
        let logits = reference.floats("logits");
        Self {
            ids: reference.tokens("ids"),
            scored: reference.tokens("scored").into_iter().map(|at| at as usize).collect(),
            logits: logits.chunks_exact(reference.cols("logits")).map(<[f32]>::to_vec).collect(),
        }
    }
}

/// Returns the logits of some positions, read `chunk` tokens at a time.
pub(crate) fn logits(
    model: &mut Model,
    ids: &[TokenId],
    scored: &[usize],
    chunk: usize,
) -> Vec<Vec<f32>> {
    let pages: Vec<PageId> = (0..PAGES as PageId).rev().collect();
    let mut out = Logits::new(model.network().vocab_len);
    let mut rows = Vec::new();
    for (part, tokens) in ids.chunks(chunk).enumerate() {
        let start = part * chunk;
        let here = scored.iter().filter(|at| (start..start + tokens.len()).contains(at));
        let here: Vec<usize> = here.map(|at| at - start).collect();
        model.forward(&[Segment::causal(tokens, start, &pages, &here)], &mut out);
        rows.extend((0..here.len()).map(|row| out.row(row).to_vec()));
    }
    rows
}

pub(crate) fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect()
}

/// The median and the largest difference of logits, relative to their root mean square.
pub(crate) fn differences(found: &[Vec<f32>], expected: &[Vec<f32>]) -> (f32, f32) {
    let pairs = found.iter().flatten().zip(expected.iter().flatten());
    let mut all: Vec<f32> = pairs.map(|(a, b)| (a - b).abs()).collect();
    all.sort_by(f32::total_cmp);
    let size = size(expected);
    (all[all.len() / 2] / size, all[all.len() - 1] / size)
}

/// Root mean square of logits.
fn size(logits: &[Vec<f32>]) -> f32 {
    let squares: f32 = logits.iter().flatten().map(|logit| logit * logit).sum();
    (squares / logits.iter().flatten().count() as f32).sqrt()
}

fn best(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

/// Checks that the best token is the one expected wherever it exceeds the second best by more than codes of
/// activations explain: for eight bits at some positions, otherwise at most.
#[track_caller]
pub(crate) fn assert_best_tokens(
    case: &str,
    found: &[Vec<f32>],
    expected: &[Vec<f32>],
    codes: ActivationCodes,
) {
    let (explained, min_share) = match codes {
        ActivationCodes::F32 => (1e-4, 0.9),
        ActivationCodes::Int16 => (2e-3, 0.9),
        ActivationCodes::Int8 | ActivationCodes::Int8Group => (0.2, 0.1),
    };
    let (explained, mut sure) = (explained * size(expected), 0);
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let top = best(expected);
        let others = (0..expected.len()).filter(|&token| token != top);
        let margin = others.map(|t| expected[top] - expected[t]).fold(f32::MAX, f32::min);
        if margin > explained {
            sure += 1;
            assert_eq!(best(found), top, "{case}, {codes}: row {at}, margin {margin}");
        }
    }
    let share = sure as f32 / expected.len() as f32;
    assert!(share >= min_share, "{case}, {codes}: only {sure} margins exceed {explained}");
}
