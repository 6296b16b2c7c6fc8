//! `wf eval`: measure a model, on its own or (`tasks`) with the engine.

pub(crate) mod args;
pub(crate) mod kv;
pub(crate) mod logits;
pub(crate) mod perplexity;
pub(crate) mod tasks;

use anyhow::{Result, ensure};
use wf_engine::TokenId;
use wf_model::{Forward, Logits, Model, PAGE_LEN, PageId, Segment, math};

/// Runs `ids` from position 0 and hands the scores of every position to `each`.
pub(crate) fn score(
    model: &mut Model,
    ids: &[TokenId],
    mut each: impl FnMut(usize, &[f32]),
) -> Result<()> {
    let (vocab_len, context_len) = (model.config().vocab_len, model.pages() * PAGE_LEN);
    ensure!(!ids.is_empty(), "no tokens: at least one is needed");
    ensure!(
        ids.len() <= context_len,
        "{} tokens were given: the context holds {context_len}",
        ids.len()
    );
    if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_len) {
        anyhow::bail!("token {id} is not in the vocabulary: numbers 0 to {} are", vocab_len - 1);
    }
    let pages: Vec<PageId> = (0..model.pages() as PageId).collect();
    let mut logits = Logits::new(vocab_len);
    let mut start = 0;
    for tokens in ids.chunks(model.max_batch_tokens()) {
        let want: Vec<usize> = (0..tokens.len()).collect();
        let segment = Segment::causal(tokens, start, &pages, &want);
        model.forward(&[segment], &mut logits);
        for row in 0..tokens.len() {
            each(start + row, logits.row(row));
        }
        start += tokens.len();
    }
    Ok(())
}

/// −ln of the probability that `scores` give to `token`.
pub(crate) fn nll(scores: &[f32], token: TokenId) -> f64 {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|&s| math::exp(f64::from(s) - f64::from(top))).sum();
    math::ln(sum) + f64::from(top) - f64::from(scores[token as usize])
}
