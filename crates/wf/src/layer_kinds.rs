//! Lists the kinds of layers of a network, and the layers of each.

use serde_json::{Value, json};
use wf_core::{Attention, Ffn, Layer, Mixer, Network};

/// Layers that are alike, by index.
struct Kind<'a> {
    layer: &'a Layer,
    indices: Vec<usize>,
}

fn kinds(network: &Network) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        match kinds.iter_mut().find(|kind| kind.layer == layer) {
            Some(kind) => kind.indices.push(index),
            None => kinds.push(Kind { layer, indices: vec![index] }),
        }
    }
    kinds
}

/// Returns a row for each kind of layer, if there are several.
pub(crate) fn rows(network: &Network) -> Vec<(&'static str, String)> {
    let kinds = kinds(network);
    if kinds.len() < 2 {
        return Vec::new();
    }
    let row = |kind: &Kind<'_>| {
        let parts = [mixer(&kind.layer.mixer), ffn(&kind.layer.ffn)];
        ("layers", format!("{}: {}", ranges(&kind.indices), parts.join(", ")))
    };
    kinds.iter().map(row).collect()
}

/// Returns all kinds as a JSON list.
pub(crate) fn json(network: &Network) -> Value {
    let kind = |kind: &Kind<'_>| {
        json!({
            "layers": kind.indices,
            "mixer": if kind.layer.delta_net().is_some() { "recurrent" } else { "attention" },
            "window": kind.layer.window(),
            "rope_theta": kind.layer.rope().map(|rope| rope.theta),
            "feed_forward": kind.layer.ffn.block().ffn_len,
            "experts": kind.layer.ffn.experts().map(|experts| experts.experts),
        })
    };
    kinds(network).iter().map(kind).collect()
}

fn mixer(mixer: &Mixer) -> String {
    match mixer {
        Mixer::Attention(block) => attention(block),
        Mixer::DeltaNet(_) => "recurrent (Gated DeltaNet)".to_owned(),
    }
}

fn attention(attention: &Attention) -> String {
    let seen = attention.window.map_or("attention to all tokens".to_owned(), |window| {
        format!("attention to {window} tokens")
    });
    let rotation = match attention.rope {
        Some(rope) => format!("rope θ {}", rope.theta),
        None => "no rotation".to_owned(),
    };
    format!("{seen}, {rotation}")
}

fn ffn(ffn: &Ffn) -> String {
    match ffn {
        Ffn::Dense(dense) => format!("feed-forward {}", dense.ffn_len),
        Ffn::Experts(experts) => {
            format!(
                "{} of {} experts of {}",
                experts.active, experts.experts, experts.expert.ffn_len
            )
        }
    }
}

/// Formats indices in ascending order, runs of them as `2–5`.
fn ranges(indices: &[usize]) -> String {
    let runs = indices.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}–{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    runs.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wf_formats::{ModelFile, OpenOptions};

    use super::*;

    fn open(path: &str) -> ModelFile {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
        ModelFile::open(&folder.join(path), &OpenOptions::default()).unwrap()
    }

    #[test]
    fn kinds_are_listed_with_their_layers() {
        let maple = open("maple/windows.gguf");
        let rows: Vec<String> = rows(maple.network()).into_iter().map(|(_, row)| row).collect();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows[0].starts_with("0–2: attention to 48 tokens, rope θ 10000"), "{rows:?}");
        assert!(rows[1].starts_with("3: attention to all tokens, no rotation"), "{rows:?}");
        assert_eq!(json(maple.network())[1]["layers"], json!([3]));
        let hybrid = super::rows(open("qwen35/tiled.gguf").network());
        assert!(hybrid[0].1.starts_with("0–2: recurrent (Gated DeltaNet)"), "{hybrid:?}");
        assert!(hybrid[1].1.starts_with("3: attention to all tokens"), "{hybrid:?}");
        let alike = open("minicpm/tied.gguf");
        assert!(super::rows(alike.network()).is_empty());
        assert_eq!(json(alike.network())[0]["layers"], json!([0, 1, 2]));
    }

    #[test]
    fn runs_of_layers_are_short() {
        assert_eq!(ranges(&[0, 1, 2, 4, 5, 7]), "0–2, 4–5, 7");
    }
}
