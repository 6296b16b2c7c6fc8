//! Models with logits recorded by `transformers` (`tools/golden/record.py`).

#[path = "../reference/mod.rs"]
#[expect(dead_code, reason = "other tests read other types")]
mod reference;

use std::path::Path;

use reference::Reference;
use wf_core::ActivationCodes;
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Forward, HeadMode, KvDtype, Logits, Model, ModelOptions, PageId, Segment, SparseMode, TokenId,
};

/// Pages that a model needs for [`logits`].
const PAGES: usize = 16;

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
    let squares: f32 = expected.iter().flatten().map(|logit| logit * logit).sum();
    let size = (squares / all.len() as f32).sqrt();
    (all[all.len() / 2] / size, all[all.len() - 1] / size)
}
