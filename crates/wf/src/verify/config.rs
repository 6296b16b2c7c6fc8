//! Whether two files describe the same network and the same tokens.

use wf_engine::read_text;
use wf_formats::{ModelFile, TokenizerSource};

/// Letters, digits, signs and spaces that tokenizers are known to cut in different ways.
const TEXT: &str = "Once upon a time, 12345 dogs' owners said:  \u{201c}h\u{e9}, \u{65e5}\u{672c}!\u{201d}\n\n\tThe end.";

/// Every setting in which two models differ, as `name: first, second`.
pub(super) fn differences(first: &ModelFile, second: &ModelFile) -> Vec<String> {
    let (a, b) = (first.config(), second.config());
    let mut found = Vec::new();
    let mut compare = |name: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{name}: {a} and {b}"));
        }
    };
    let sizes = [
        ("vocabulary", a.vocab_len, b.vocab_len),
        ("hidden size", a.hidden_len, b.hidden_len),
        ("feed-forward size", a.ffn_len, b.ffn_len),
        ("layers", a.layers, b.layers),
        ("heads", a.heads, b.heads),
        ("key/value heads", a.kv_heads, b.kv_heads),
        ("head size", a.head_dim, b.head_dim),
        ("context", a.context_len, b.context_len),
    ];
    for (name, a, b) in sizes {
        compare(name, a.to_string(), b.to_string());
    }
    // GGUF holds it as f32.
    compare("rotary base", (a.rope_theta as f32).to_string(), (b.rope_theta as f32).to_string());
    compare("norm epsilon", a.norm_eps.to_string(), b.norm_eps.to_string());
    compare("activation", a.activation.to_string(), b.activation.to_string());
    compare("sub-norms", a.sub_norms.to_string(), b.sub_norms.to_string());
    compare("other norms", format!("{:?}", a.extra_norms), format!("{:?}", b.extra_norms));
    let scaled = |c: &wf_formats::ModelConfig| c.scaled_embedding.to_string();
    compare("scaled embedding", scaled(a), scaled(b));
    compare("pooling", format!("{:?}", a.pooling), format!("{:?}", b.pooling));
    compare("tied head", a.tied_head.to_string(), b.tied_head.to_string());
    compare("first token", format!("{:?}", a.bos), format!("{:?}", b.bos));
    compare("end tokens", format!("{:?}", a.eos), format!("{:?}", b.eos));
    let blocks = |c: &wf_formats::ModelConfig| format!("{:?}", c.block_diffusion);
    compare("block diffusion", blocks(a), blocks(b));
    compare("tokens of a text", tokens(first), tokens(second));
    found
}

/// The tokens that a model gives a text; why not, if it cannot.
fn tokens(file: &ModelFile) -> String {
    if matches!(file.tokenizer(), TokenizerSource::Missing { .. }) {
        return "no tokenizer".to_owned();
    }
    match read_text(file) {
        Ok(text) => format!("{:?}", text.tokenizer.encode(TEXT)),
        Err(_) => "a tokenizer that cannot be used".to_owned(),
    }
}
