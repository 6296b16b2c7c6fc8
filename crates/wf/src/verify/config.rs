//! Compares the settings and the tokens of two models.

use std::hash::{DefaultHasher, Hash, Hasher};

use wf_core::{Attention, Dense, Experts, Hadamard, Layer, Rope, ValueHeadOrder};
use wf_engine::read_text;
use wf_formats::{ModelFile, TokenizerSource};
use wf_model::Frequencies;

/// Letters, digits, punctuation and spaces that tokenizers are known to split differently.
const TEXT: &str = "Once upon a time, 12345 dogs' owners said:  \u{201c}h\u{e9}, \u{65e5}\u{672c}!\u{201d}\n\n\tThe end.";

type Setting = (&'static str, fn(&ModelFile) -> String);

/// Names and values of the settings that are compared. Layers of a network are alike in them, but for windows and
/// rotation.
const SETTINGS: [Setting; 30] = [
    ("vocabulary", |file| file.network().vocab_len.to_string()),
    ("hidden size", |file| file.network().hidden_len.to_string()),
    ("feed-forward size", |file| dense(file).ffn_len.to_string()),
    ("experts", |file| {
        let layer = file.network().layers.first().copied().unwrap_or_default();
        let of = |&Experts { experts, active, renormalize, shared, .. }: &Experts| {
            (experts, active, renormalize, shared)
        };
        format!("{:?}", layer.ffn.experts().map(of))
    }),
    ("layers", |file| file.network().layers.len().to_string()),
    ("heads", |file| attention(file).heads.to_string()),
    ("key/value heads", |file| attention(file).kv_heads.to_string()),
    ("head size", |file| attention(file).head_dim.to_string()),
    ("context", |file| file.info().context_len.to_string()),
    // GGUF stores the base as f32, and files differ in the order of rotary pairs.
    ("rotary bases", |file| {
        let base = |attention: &Attention| attention.rope.map(|rope| rope.theta as f32);
        format!("{:?}", by_layer(file, base))
    }),
    ("rotary frequencies", frequencies),
    ("attention windows", |file| format!("{:?}", by_layer(file, |attention| attention.window))),
    ("attention scale", |file| format!("{:?}", attention(file).score_scale)),
    ("limit of gates", |file| format!("{:?}", dense(file).limit)),
    ("norm epsilon", |file| file.network().norm.eps.to_string()),
    ("activation", |file| dense(file).activation.to_string()),
    ("activation codes", |file| file.network().activations.to_string()),
    ("recurrent layers", |file| {
        // The order of value heads is one of the file.
        let of = |layer: &Layer| layer.delta_net().map(|d| d.with_order(ValueHeadOrder::Grouped));
        format!("{:?}", file.network().layers.iter().map(of).collect::<Vec<_>>())
    }),
    ("Hadamard transform", hadamard),
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
    file.network().attentions().next().copied().unwrap_or_default()
}

/// Returns a value of each layer.
fn by_layer<T>(file: &ModelFile, value: impl Fn(&Attention) -> T) -> Vec<T> {
    file.network().attentions().map(value).collect()
}

/// Returns the frequencies of each layer in contexts of the original and of the full length, which files describe in
/// different ways.
fn frequencies(file: &ModelFile) -> String {
    let divisors = &file.network().rope_divisors;
    let of = |attention: &Attention, context_len| {
        // GGUF stores the base as f32.
        let rope = attention.rope?;
        let rope = Rope { theta: f64::from(rope.theta as f32), ..rope };
        let dims = rope.dims.unwrap_or(attention.head_dim);
        Some(Frequencies::new(&rope, divisors, dims, context_len))
    };
    let mut found = by_layer(file, |attention| {
        format!("{:?} and {:?}", of(attention, 1), of(attention, file.info().context_len))
    });
    // Windows tell the layers apart.
    found.dedup();
    found.truncate(2);
    found.join("; ")
}

/// Returns the transform of weights, with a digest of its signs.
fn hadamard(file: &ModelFile) -> String {
    let Some(hadamard) = &file.network().hadamard else { return "none".to_owned() };
    let Hadamard { block_len, signs, embedding, head, grouped_values } = hadamard;
    let mut digest = DefaultHasher::new();
    signs.hash(&mut digest);
    let tables = (embedding, head, grouped_values);
    format!("blocks of {block_len}, signs {:016x}, tables {tables:?}", digest.finish())
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
