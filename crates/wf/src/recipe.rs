//! Describes the layers of a network: windows, rotation, experts, scales and limits.

use serde_json::{Map, Value, json};
use wf_core::{
    Attention, DeltaNet, Experts, Layer, LayerKinds, Network, RopeScaling, SharedExpert,
};

/// Returns a layer that rotates, which stands for all where they are alike.
pub(crate) fn typical_layer(network: &Network) -> Layer {
    let rotated = network.layer_kinds().and_then(|kinds| kinds.rotated());
    rotated.or(network.layers.first()).copied().unwrap_or_default()
}

/// Returns the attention block that stands for all where they are alike.
pub(crate) fn typical_attention(network: &Network) -> Attention {
    typical_layer(network).attention().copied().unwrap_or_default()
}

/// Describes a multi-token prediction head.
const PREDICTION: &str = "a head of one layer drafts tokens (--decode mtp)";

/// Returns a row for each part of a recipe that most networks do not have.
pub(crate) fn rows(network: &Network) -> Vec<(&'static str, String)> {
    let layer = typical_layer(network);
    let (attention, dense) = (typical_attention(network), layer.ffn.block());
    let mut rows = Vec::new();
    rows.extend(recurrent_line(network).map(|line| ("recurrent", line)));
    rows.extend(network.mtp.map(|_| ("prediction", PREDICTION.to_owned())));
    rows.extend(layer.ffn.experts().map(|experts| ("experts", experts_line(experts))));
    rows.extend(
        dense.limit.map(|limit| ("limits", format!("gates up to {limit}, up within ±{limit}"))),
    );
    rows.extend(windows_line(network).map(|line| ("windows", line)));
    rows.extend(rotation_line(network).map(|line| ("rotation", line)));
    if let Some(scaling) = rope_scaling(attention.rope.unwrap_or_default().scaling) {
        rows.push(("rotary scaling", scaling));
    }
    rows.extend(attention.score_scale.map(|scale| ("attention scale", scale.to_string())));
    let scales = [
        network.embedding.scale.map(|scale| format!("embedding × {scale}")),
        network.residual_scale.map(|scale| format!("residuals × {scale}")),
        network.head.divisor.map(|divisor| format!("logits ÷ {divisor}")),
    ];
    let scales: Vec<String> = scales.into_iter().flatten().collect();
    rows.extend((!scales.is_empty()).then(|| ("scaled", scales.join(", "))));
    rows
}

/// Returns the same as fields of a JSON object.
pub(crate) fn fields(network: &Network) -> Map<String, Value> {
    let layer = typical_layer(network);
    let (attention, dense) = (typical_attention(network), layer.ffn.block());
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            fields.insert(key.to_owned(), value);
        }
    };
    if let Some(experts) = layer.ffn.experts() {
        set("experts", json!(experts.experts));
        set("active_experts", json!(experts.active));
        set("renormalized_shares", json!(experts.renormalize));
        let shared =
            |shared: SharedExpert| json!({"feed_forward": shared.ffn_len, "gated": shared.gated});
        set("shared_expert", experts.shared.map_or(Value::Null, shared));
    }
    set("gate_limit", json!(dense.limit));
    let windows = by_layer(network, |attention| attention.window);
    if windows.iter().any(Option::is_some) {
        set("windows", json!(windows));
        let bases = by_layer(network, |attention| attention.rope.map(|rope| rope.theta));
        set("rope_thetas", json!(bases));
    }
    if let Some(d) = network.layers.iter().find_map(Layer::delta_net) {
        let kind =
            |layer: &Layer| if layer.delta_net().is_some() { "recurrent" } else { "attention" };
        set("layer_kinds", json!(network.layers.iter().map(kind).collect::<Vec<_>>()));
        set("linear_key_heads", json!(d.key_heads));
        set("linear_value_heads", json!(d.value_heads));
        set("linear_key_dim", json!(d.key_dim));
        set("linear_value_dim", json!(d.value_dim));
        set("convolution", json!(d.conv_len));
        set("mtp_layers", if network.mtp.is_some() { json!(1) } else { Value::Null });
    }
    set("gated_attention", if attention.gated { json!(true) } else { Value::Null });
    set("rotated_dims", json!(attention.rope.and_then(|rope| rope.dims)));
    set("attention_scale", json!(attention.score_scale));
    set("embedding_scale", json!(network.embedding.scale));
    set("residual_scale", json!(network.residual_scale));
    set("logit_divisor", json!(network.head.divisor));
    fields
}

fn by_layer<T>(network: &Network, value: impl Fn(&Attention) -> T) -> Vec<T> {
    network.attentions().map(value).collect()
}

/// Describes the recurrent layers, if there are any.
fn recurrent_line(network: &Network) -> Option<String> {
    let &DeltaNet { key_heads, value_heads, key_dim, value_dim, conv_len, .. } =
        network.layers.iter().find_map(Layer::delta_net)?;
    let recurrent = network.layers.iter().filter(|layer| layer.delta_net().is_some()).count();
    Some(format!(
        "{recurrent} of {} layers, {value_heads} heads of {value_dim} ({key_heads} keys of {key_dim}), \
         convolution of {conv_len}; gated attention in the others",
        network.layers.len()
    ))
}

/// Describes the windows, if there are any.
fn windows_line(network: &Network) -> Option<String> {
    let mut windows: Vec<usize> =
        by_layer(network, |attention| attention.window).into_iter().flatten().collect();
    let sliding = windows.len();
    windows.sort_unstable();
    windows.dedup();
    let lengths: Vec<String> = windows.iter().map(usize::to_string).collect();
    let layers = network.layers.len();
    (sliding > 0).then(|| format!("{} tokens in {sliding} of {layers} layers", lengths.join(", ")))
}

/// Describes what differs from one rotation of whole heads in all layers.
fn rotation_line(network: &Network) -> Option<String> {
    let LayerKinds { full, sliding, .. } = network.layer_kinds()?;
    let rope = |layer: Option<&Layer>| layer.and_then(Layer::rope);
    let Attention { head_dim, rope: of_heads, .. } = typical_attention(network);
    let dims = of_heads.and_then(|rope| rope.dims);
    let dims = dims.map(|dims| format!("{dims} of {head_dim} dimensions"));
    let where_ = match (full.map(|_| rope(full)), sliding.map(|_| rope(sliding))) {
        (Some(None), Some(Some(_))) => Some("only in layers with a window".to_owned()),
        (Some(Some(full)), Some(Some(sliding))) if full != sliding => {
            Some(format!("θ {} in layers with a window", sliding.theta))
        }
        _ => None,
    };
    let parts: Vec<String> = dims.into_iter().chain(where_).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Describes a rotary scaling, if there is one.
pub(crate) fn rope_scaling(scaling: RopeScaling) -> Option<String> {
    Some(match scaling {
        RopeScaling::None => return None,
        RopeScaling::Linear { factor } => format!("linear by {factor}"),
        RopeScaling::Dynamic { factor, original_len } => {
            format!("dynamic by {factor}, from {original_len} tokens")
        }
        RopeScaling::Llama3 { factor, original_len, .. } => {
            format!("Llama 3.1 by {factor}, from {original_len} tokens")
        }
        RopeScaling::Yarn(yarn) => {
            format!("YaRN by {}, from {} tokens", yarn.factor, yarn.original_len)
        }
        RopeScaling::Divided { original_len, .. } => {
            format!("by the file's divisors, from {original_len} tokens")
        }
    })
}

/// Describes a mixture of experts.
fn experts_line(experts: &Experts) -> String {
    let shares = if experts.renormalize { ", their shares renormalized" } else { "" };
    let &Experts { experts, active, shared, .. } = experts;
    let shared = shared.map_or(String::new(), |SharedExpert { ffn_len, gated }| {
        format!("; one of {ffn_len} for all{}", if gated { ", with a gate" } else { "" })
    });
    format!("{experts} in each layer, {active} of them for a token{shares}{shared}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wf_formats::{ModelFile, OpenOptions};

    use super::*;

    fn described(path: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
        let file = ModelFile::open(&folder.join(path), &OpenOptions::default()).unwrap();
        rows(file.network()).into_iter().map(|(key, value)| format!("{key}: {value}")).collect()
    }

    #[test]
    fn rows_tell_what_sets_a_recipe_apart() {
        let maple = described("maple/windows.gguf");
        assert_eq!(
            maple,
            [
                "experts: 8 in each layer, 3 of them for a token, their shares renormalized",
                "limits: gates up to 7, up within ±7",
                "windows: 48 tokens in 3 of 4 layers",
                "rotation: 16 of 32 dimensions, only in layers with a window",
            ]
        );
        let gemma3 = described("gemma3/windows.gguf");
        assert!(gemma3.contains(&"windows: 40 tokens in 3 of 4 layers".to_owned()), "{gemma3:?}");
        let rotation = "rotation: θ 10000 in layers with a window".to_owned();
        assert!(gemma3.contains(&rotation), "{gemma3:?}");
        assert!(gemma3.contains(&"rotary scaling: linear by 4".to_owned()), "{gemma3:?}");
        let minicpm = described("minicpm/tied.gguf");
        assert_eq!(minicpm, ["scaled: embedding × 12, residuals × 0.80829036, logits ÷ 2.6666667"]);
        assert_eq!(described("weight_only/binary-tied.gguf"), [""; 0]);
        assert_eq!(
            described("qwen35/tiled.gguf"),
            [
                "recurrent: 3 of 4 layers, 4 heads of 128 (2 keys of 32), convolution of 4; gated attention in the \
                 others",
                "rotation: 16 of 64 dimensions",
            ]
        );
        let predicting = described("qwen35/mtp.gguf");
        let head = "prediction: a head of one layer drafts tokens (--decode mtp)".to_owned();
        assert!(predicting.contains(&head), "{predicting:?}");
    }
}
