//! Mixtures of experts, read from keys that families share.

use wf_core::{Dense, Experts, Ffn, Network, SharedExpert};

use super::keys::{Key, Keys};
use crate::error::Error;
use crate::names::LayerTensor;

/// The number of experts, which `transformers` writes under another name since version 5.
const COUNTS: [Key; 2] = [Key::new("expert_count", "num_experts"), Key::json("num_local_experts")];
const ACTIVE: Key = Key::new("expert_used_count", "num_experts_per_tok");
const LEN: Key = Key::new("expert_feed_forward_length", "moe_intermediate_size");
const RENORMALIZE: Key = Key::new("expert_weights_norm", "norm_topk_prob");
const SHARED_LEN: Key =
    Key::new("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
/// The number of shared experts, which are one block of as many times the neurons of an expert.
const SHARED_COUNTS: [Key; 3] = [
    Key::gguf("expert_shared_count"),
    Key::json("num_shared_experts"),
    Key::json("n_shared_experts"),
];

/// Returns the number of experts and its key, if the file names it.
pub(super) fn count(keys: &Keys<'_>) -> Result<Option<(Key, usize)>, Error> {
    for key in COUNTS {
        if let Some(count) = keys.optional_size(key)? {
            return Ok(Some((key, count)));
        }
    }
    Ok(None)
}

/// Reads a mixture of experts; `renormalize` is the value of a file that does not say.
pub(super) fn experts(keys: &Keys<'_>, expert: Dense, renormalize: bool) -> Result<Ffn, Error> {
    let [first, _] = COUNTS;
    let (key, experts) = count(keys)?.ok_or_else(|| keys.fault(first, "missing"))?;
    let experts = bounded(keys, key, experts, Network::MAX_EXPERTS)?;
    let ffn_len = bounded(keys, LEN, keys.size(LEN)?, Network::MAX_WIDTH)?;
    Ok(Ffn::Experts(Experts {
        experts,
        active: bounded(keys, ACTIVE, keys.size(ACTIVE)?, experts)?,
        renormalize: keys.flag(RENORMALIZE)?.unwrap_or(renormalize),
        expert: Dense { ffn_len, ..expert },
        shared: shared(keys, ffn_len)?,
    }))
}

/// Reads the shared expert, whose share depends on the token if the file has a gate for it. An expert has
/// `expert_len` neurons.
fn shared(keys: &Keys<'_>, expert_len: usize) -> Result<Option<SharedExpert>, Error> {
    let gated = keys.evidence.has_any(&[LayerTensor::SharedRouter]);
    if let Some(len) = keys.optional_size(SHARED_LEN)?.filter(|&len| len > 0) {
        let ffn_len = bounded(keys, SHARED_LEN, len, Network::MAX_WIDTH)?;
        return Ok(Some(SharedExpert { ffn_len, gated }));
    }
    for key in SHARED_COUNTS {
        let Some(count) = keys.optional_size(key)?.filter(|&count| count > 0) else { continue };
        let max = Network::MAX_WIDTH.checked_div(expert_len).unwrap_or(0);
        let ffn_len = bounded(keys, key, count, max)?.saturating_mul(expert_len);
        return Ok(Some(SharedExpert { ffn_len, gated }));
    }
    Ok(None)
}

fn bounded(keys: &Keys<'_>, key: Key, value: usize, max: usize) -> Result<usize, Error> {
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(keys.fault(key, format!("{value}, must be between 1 and {max}")))
}
