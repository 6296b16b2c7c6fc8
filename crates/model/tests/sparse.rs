//! Skipping zeros changes no bit of the demo model, and the zeros are counted.

use std::path::Path;

use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Compute, Forward, HeadMode, KvDtype, LayerSparsity, Logits, Model, ModelOptions, Segment,
    SparseMode, TokenId,
};

const PROMPT: [TokenId; 6] = [1, 40, 300, 77, 512, 9];
const STEPS: usize = 40;

fn demo(compute: Compute, sparse: SparseMode) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let (kv, head) = (KvDtype::F32, HeadMode::Full);
    let options = ModelOptions {
        kv,
        pages: 4,
        max_batch_tokens: 8,
        head,
        sparse,
        context_len: None,
        activations: None,
    };
    Model::load(&file, compute, options, &mut |_| {}).unwrap()
}

/// Greedy decoding: the tokens, and the bits of every score on the way.
fn decode(model: &mut Model) -> (Vec<TokenId>, Vec<u32>) {
    let mut logits = Logits::new(model.network().vocab_len);
    let (mut tokens, mut bits) = (PROMPT.to_vec(), Vec::new());
    let pages = [2, 0, 1];
    model.forward(&[Segment::causal(&PROMPT, 0, &pages, &[5])], &mut logits);
    for step in 0..STEPS {
        let scores = logits.row(0);
        bits.extend(scores.iter().map(|score| score.to_bits()));
        let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
        tokens.push(best as TokenId);
        let start = PROMPT.len() + step;
        model.forward(&[Segment::causal(&tokens[start..], start, &pages, &[0])], &mut logits);
    }
    (tokens, bits)
}

#[test]
fn every_score_keeps_its_bits() {
    let expected = decode(&mut demo(Compute::new(2), SparseMode::Off));
    for isa in Compute::supported() {
        for threads in [1, 2, 3] {
            let compute = Compute::chosen(Some(isa), threads, None).unwrap();
            let mut model = demo(compute, SparseMode::On);
            assert!(decode(&mut model) == expected, "{isa} on {threads} threads");
        }
    }
    assert!(decode(&mut demo(Compute::new(2), SparseMode::Auto)) == expected, "auto");
}

#[test]
fn every_inner_value_keeps_its_bits() {
    let mut models = [SparseMode::Off, SparseMode::On].map(|sparse| demo(Compute::new(2), sparse));
    let mut hidden = vec![0.0; models[0].network().hidden_len];
    models[0].weights().embedding.row(40, &mut hidden);
    for layer in 0..models[0].network().layers.len() {
        let batch = [Segment::causal(&[40], 0, &[0], &[])];
        let [dense, sparse] = models.each_mut().map(|m| m.trace_layer(layer, &batch, &hidden));
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&dense.ffn_mid.values), bits(&sparse.ffn_mid.values), "layer {layer}");
        assert_eq!(dense.ffn_mid.codes, sparse.ffn_mid.codes, "layer {layer}");
        assert_eq!(bits(&dense.output), bits(&sparse.output), "layer {layer}");
        hidden = sparse.output;
    }
}

#[test]
fn zeros_are_counted_where_they_are_skipped() {
    let mut dense = demo(Compute::new(2), SparseMode::Off);
    decode(&mut dense);
    assert!(dense.layer_sparsity().all(|layer| layer == LayerSparsity::default()));
    assert_eq!(dense.sparse_size_bytes(), 0);

    let mut sparse = demo(Compute::new(2), SparseMode::On);
    assert!(sparse.sparse_size_bytes() > 0);
    decode(&mut sparse);
    let counted: Vec<_> = sparse.layer_sparsity().collect();
    for (layer, counts) in counted.iter().enumerate() {
        assert!(counts.skips);
        let tokens = PROMPT.len() + STEPS;
        let ffn_len = sparse.weights().layers[layer].ffn.dense().unwrap().gate.rows();
        assert_eq!(counts.tokens, tokens as u64);
        assert_eq!(counts.neurons, (tokens * ffn_len) as u64);
        assert!(
            counts.sparse_up >= STEPS as u64,
            "layer {layer}: {} of the tokens",
            counts.sparse_up
        );
        assert!(counts.sparse_down >= STEPS as u64, "{} in layer {layer}", counts.sparse_down);
        let (closed, zeros) = (counts.closed_share(), counts.zero_share());
        assert!((0.4..0.95).contains(&closed), "layer {layer}: {closed} of the gates");
        assert!((closed..0.99).contains(&zeros), "layer {layer}: {zeros} of the codes");
    }
    let skipped: u64 = counted.iter().map(|counts| counts.sparse_down).sum();
    assert!(skipped > (STEPS * counted.len()) as u64, "tokens of the prompt skip zeros, too");
    // Switched off, nothing is skipped, and nothing counted.
    sparse.enable_sparse(false);
    assert!(decode(&mut sparse) == decode(&mut dense));
    assert!(sparse.layer_sparsity().eq(counted));
}
