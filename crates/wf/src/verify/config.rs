//! Compares the settings and the tokens of two models.

use wf_core::{Attention, Layer, Network};
use wf_engine::read_text;
use wf_formats::{ModelFile, ModelInfo, TokenizerSource};

/// Letters, digits, punctuation and spaces that tokenizers are known to split differently.
const TEXT: &str = "Once upon a time, 12345 dogs' owners said:  \u{201c}h\u{e9}, \u{65e5}\u{672c}!\u{201d}\n\n\tThe end.";

/// Returns the settings that differ, as `name: first and second`.
pub(super) fn differences(first: &ModelFile, second: &ModelFile) -> Vec<String> {
    let (a, b) = (first.network(), second.network());
    let (a_info, b_info) = (first.info(), second.info());
    let layer = |network: &Network| network.layers.first().copied().unwrap_or_default();
    let (a_layer, b_layer) = (layer(a), layer(b));
    let (a_attention, b_attention) = (a_layer.attention(), b_layer.attention());
    let dense = |layer: &Layer| layer.ffn.dense().copied().unwrap_or_default();
    let (a_dense, b_dense) = (dense(&a_layer), dense(&b_layer));
    let mut found = Vec::new();
    let mut compare = |name: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{name}: {a} and {b}"));
        }
    };
    let sizes = [
        ("vocabulary", a.vocab_len, b.vocab_len),
        ("hidden size", a.hidden_len, b.hidden_len),
        ("feed-forward size", a_dense.ffn_len, b_dense.ffn_len),
        ("layers", a.layers.len(), b.layers.len()),
        ("heads", a_attention.heads, b_attention.heads),
        ("key/value heads", a_attention.kv_heads, b_attention.kv_heads),
        ("head size", a_attention.head_dim, b_attention.head_dim),
        ("context", a_info.context_len, b_info.context_len),
    ];
    for (name, a, b) in sizes {
        compare(name, a.to_string(), b.to_string());
    }
    // GGUF stores the base as f32, and files differ in the order of rotary pairs.
    let theta = |a: &Attention| format!("{:?}", a.rope.map(|rope| rope.theta as f32));
    compare("rotary base", theta(a_attention), theta(b_attention));
    compare("norm epsilon", a.norm.eps.to_string(), b.norm.eps.to_string());
    compare("activation", a_dense.activation.to_string(), b_dense.activation.to_string());
    let sub_norms = |a: &Attention| a.sub_norm.is_some().to_string();
    compare("sub-norms", sub_norms(a_attention), sub_norms(b_attention));
    let norms = |a: &Attention| {
        let has = [a.input_norm, a.qk_norm, a.output_norm].map(|norm| norm.is_some());
        format!("inputs {}, query and key heads {}, outputs {}", has[0], has[1], has[2])
    };
    compare("other norms", norms(a_attention), norms(b_attention));
    compare("embedding scale", format!("{:?}", a.embedding), format!("{:?}", b.embedding));
    compare("pooling", format!("{:?}", a_info.pooling), format!("{:?}", b_info.pooling));
    compare("tied head", a.head.tied.to_string(), b.head.tied.to_string());
    compare("first token", format!("{:?}", a_info.bos), format!("{:?}", b_info.bos));
    compare("end tokens", format!("{:?}", a_info.eos), format!("{:?}", b_info.eos));
    let blocks = |info: &ModelInfo| format!("{:?}", info.block_diffusion);
    compare("block diffusion", blocks(a_info), blocks(b_info));
    compare("tokens of a text", tokens(first), tokens(second));
    found
}

/// Returns the tokens of a text, or why there are none.
fn tokens(file: &ModelFile) -> String {
    if matches!(file.tokenizer(), TokenizerSource::Missing { .. }) {
        return "no tokenizer".to_owned();
    }
    match read_text(file) {
        Ok(text) => format!("{:?}", text.tokenizer.encode(TEXT)),
        Err(_) => "unusable tokenizer".to_owned(),
    }
}
