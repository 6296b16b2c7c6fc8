//! Rotary scaling in the keys and tensors of GGUF and in `config.json`.

use serde_json::{Value, json};
use wf_core::{Network, Rope, RopeDivisors, RopeScaling, Yarn};

use super::family::blocks;
use crate::gguf::rope::{ALL, LONG, SHORT};
use crate::gguf::write::MetadataValue;

/// Returns `true` if the keys of GGUF describe the scaling of a network.
pub(super) fn fits_gguf(network: &Network) -> bool {
    let ropes = network.attentions().filter_map(|attention| attention.rope);
    let mut scalings = ropes.map(|rope| rope.scaling);
    scalings.all(|scaling| !matches!(scaling, RopeScaling::Yarn(yarn) if !yarn.whole_indices))
}

/// Returns the GGUF keys of a scaling, without the architecture in front.
pub(super) fn gguf_keys(scaling: &RopeScaling) -> Vec<(&'static str, MetadataValue)> {
    let kind = |name: &str| ("rope.scaling.type", MetadataValue::String(name.to_owned()));
    let number = |key, value: f64| (key, MetadataValue::F32(value as f32));
    let factor = |value| number("rope.scaling.factor", value);
    let original = |len: usize| {
        let len = MetadataValue::U32(u32::try_from(len).unwrap_or(u32::MAX));
        ("rope.scaling.original_context_length", len)
    };
    match *scaling {
        RopeScaling::None => Vec::new(),
        RopeScaling::Linear { factor: by } => vec![kind("linear"), factor(by)],
        // No other program knows this type: it treats the model as one without scaling, which is right
        // up to the original length.
        RopeScaling::Dynamic { factor: by, original_len } => {
            vec![kind("dynamic"), factor(by), original(original_len)]
        }
        // Other programs read the divisors, which `tensors` returns, and ignore the type.
        RopeScaling::Llama3 { factor: by, low_turns, high_turns, original_len } => vec![
            kind("llama3"),
            factor(by),
            original(original_len),
            number("rope.scaling.low_freq_factor", low_turns),
            number("rope.scaling.high_freq_factor", high_turns),
        ],
        RopeScaling::Yarn(yarn) => {
            let relative = f64::from(yarn.relative_attention_factor());
            let mut keys = vec![kind("yarn"), factor(yarn.factor), original(yarn.original_len)];
            keys.push(number("rope.scaling.yarn_beta_fast", yarn.fast_turns));
            keys.push(number("rope.scaling.yarn_beta_slow", yarn.slow_turns));
            if relative != 1.0 {
                keys.push(number("rope.scaling.attn_factor", relative));
            }
            keys
        }
        RopeScaling::Divided { original_len, attention_factor } => vec![
            kind("longrope"),
            original(original_len),
            number("rope.scaling.attn_factor", attention_factor),
        ],
    }
}

/// Returns the GGUF tensors of a network's scaling.
pub(super) fn gguf_tensors(network: &Network) -> Vec<(&'static str, Vec<f32>)> {
    let (attention, _) = blocks(network);
    let rope = attention.rope.map(|rope| (rope, rope.dims.unwrap_or(attention.head_dim)));
    let RopeDivisors { short, long } = &network.rope_divisors;
    match rope {
        Some((Rope { scaling: RopeScaling::Divided { .. }, .. }, _)) => {
            vec![(SHORT, short.clone()), (LONG, long.clone())]
        }
        Some((rope, head_dim)) => {
            llama3_divisors(&rope, head_dim).into_iter().map(|all| (ALL, all)).collect()
        }
        None => Vec::new(),
    }
}

/// Returns the divisors by which other programs compute the frequencies of Llama 3.1.
#[expect(clippy::disallowed_methods, reason = "for other programs: ours computes from the keys")]
fn llama3_divisors(rope: &Rope, head_dim: usize) -> Option<Vec<f32>> {
    let RopeScaling::Llama3 { factor, low_turns, high_turns, original_len } = rope.scaling else {
        return None;
    };
    let divisor = |pair: usize| {
        let frequency = rope.theta.powf(-2.0 * pair as f64 / head_dim as f64);
        let turns = original_len as f64 * frequency / std::f64::consts::TAU;
        let smooth = ((turns - low_turns) / (high_turns - low_turns)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    Some((0..head_dim / 2).map(divisor).collect())
}

/// Returns the object of `config.json` that describes a scaling.
pub(super) fn json(scaling: &RopeScaling, divisors: &RopeDivisors) -> Option<Value> {
    let original = "original_max_position_embeddings";
    Some(match *scaling {
        RopeScaling::None => return None,
        RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
        // Its original length is `max_position_embeddings`.
        RopeScaling::Dynamic { factor, .. } => json!({ "rope_type": "dynamic", "factor": factor }),
        RopeScaling::Llama3 { factor, low_turns, high_turns, original_len } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_turns,
            "high_freq_factor": high_turns,
            original: original_len,
        }),
        RopeScaling::Yarn(Yarn {
            factor,
            original_len,
            fast_turns,
            slow_turns,
            attention_factor,
            whole_indices,
        }) => json!({
            "rope_type": "yarn",
            "factor": factor,
            "beta_fast": fast_turns,
            "beta_slow": slow_turns,
            "attention_factor": attention_factor,
            "truncate": whole_indices,
            original: original_len,
        }),
        RopeScaling::Divided { original_len, attention_factor } => json!({
            "rope_type": "longrope",
            "short_factor": divisors.short,
            "long_factor": divisors.long,
            "attention_factor": attention_factor,
            original: original_len,
        }),
    })
}
