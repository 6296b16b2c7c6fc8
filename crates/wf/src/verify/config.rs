//! Compares the settings and the tokens of two models.

use wf_core::{Attention, Dense, Experts, Rope};
use wf_engine::read_text;
use wf_formats::{ModelFile, TokenizerSource};
use wf_model::Frequencies;

/// Letters, digits, punctuation and spaces that tokenizers are known to split differently.
const TEXT: &str = "Once upon a time, 12345 dogs' owners said:  \u{201c}h\u{e9}, \u{65e5}\u{672c}!\u{201d}\n\n\tThe end.";

type Setting = (&'static str, fn(&ModelFile) -> String);

/// Names and values of the settings that are compared. Layers of a network are alike in them.
const SETTINGS: [Setting; 25] = [
    ("vocabulary", |file| file.network().vocab_len.to_string()),
    ("hidden size", |file| file.network().hidden_len.to_string()),
    ("feed-forward size", |file| dense(file).ffn_len.to_string()),
    ("experts", |file| {
        let layer = file.network().layers.first().copied().unwrap_or_default();
        let of = |experts: &Experts| (experts.experts, experts.active, experts.renormalize);
        format!("{:?}", layer.ffn.experts().map(of))
    }),
    ("layers", |file| file.network().layers.len().to_string()),
    ("heads", |file| attention(file).heads.to_string()),
    ("key/value heads", |file| attention(file).kv_heads.to_string()),
    ("head size", |file| attention(file).head_dim.to_string()),
    ("context", |file| file.info().context_len.to_string()),
    // GGUF stores the base as f32, and files differ in the order of rotary pairs.
    ("rotary base", |file| format!("{:?}", attention(file).rope.map(|rope| rope.theta as f32))),
    ("rotary frequencies", frequencies),
    ("norm epsilon", |file| file.network().norm.eps.to_string()),
    ("activation", |file| dense(file).activation.to_string()),
    ("activation codes", |file| file.network().activations.to_string()),
    ("sub-norms", |file| attention(file).sub_norm.is_some().to_string()),
    ("other norms", |file| {
        let Attention { input_norm, qk_norm, output_norm, .. } = attention(file);
        let [inputs, heads, outputs] = [input_norm, qk_norm, output_norm].map(|n| n.is_some());
        format!("inputs {inputs}, query and key heads {heads}, outputs {outputs}")
    }),
    ("embedding scale", |file| format!("{:?}", file.network().embedding)),
    ("residual scale", |file| format!("{:?}", file.network().residual_scale)),
    ("logit scale", |file| format!("{:?}", file.network().head.divisor)),
    ("pooling", |file| format!("{:?}", file.info().pooling)),
    ("tied head", |file| file.network().head.tied.to_string()),
    ("first token", |file| format!("{:?}", file.info().bos)),
    ("end tokens", |file| format!("{:?}", file.info().eos)),
    ("block diffusion", |file| format!("{:?}", file.info().block_diffusion)),
    ("tokens of a text", tokens),
];

/// Returns the settings that differ, as `name: first and second`.
pub(super) fn differences(first: &ModelFile, second: &ModelFile) -> Vec<String> {
    let values = SETTINGS.into_iter().map(|(name, of)| (name, of(first), of(second)));
    let different = values.filter(|(_, a, b)| a != b);
    different.map(|(name, a, b)| format!("{name}: {a} and {b}")).collect()
}

fn attention(file: &ModelFile) -> Attention {
    *file.network().layers.first().copied().unwrap_or_default().attention()
}

/// Returns the frequencies in contexts of the original and of the full length, which files describe in
/// different ways.
fn frequencies(file: &ModelFile) -> String {
    let Attention { rope, head_dim, .. } = attention(file);
    let divisors = &file.network().rope_divisors;
    let of = |context_len| {
        // GGUF stores the base as f32.
        let rope = rope.map(|rope| Rope { theta: f64::from(rope.theta as f32), ..rope })?;
        Some(Frequencies::new(&rope, divisors, head_dim, context_len))
    };
    format!("{:?} and {:?}", of(1), of(file.info().context_len))
}

fn dense(file: &ModelFile) -> Dense {
    let layer = file.network().layers.first().copied().unwrap_or_default();
    *layer.ffn.block()
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
