//! The demo model as other projects' own tools wrote it: every trit and scale must be the source's.

use wf_core::Activation;
use wf_formats::encoding::decode_scales;
use wf_formats::{
    Container, FloatEncoding, FormatKind, ModelFile, Target, TensorName, TernaryEncoding,
    TokenizerSource,
};

use crate::support::{self, activation, shared};

fn open(path: &str) -> Option<ModelFile> {
    shared(path).map(|path| support::open(&path))
}

fn trits(model: &ModelFile, name: TensorName) -> Vec<i8> {
    let info = model.tensor(name).unwrap();
    let mut trits = vec![0; info.rows * info.cols];
    model.trits(info, 0..info.rows, &mut trits).unwrap();
    trits
}

#[test]
fn the_demo_directory_opens() {
    let Some(model) = open("models/demo") else { return };
    let (network, info) = (model.network(), model.info());
    let layer = network.uniform_layer().unwrap();
    let (attention, dense) = (layer.attention().unwrap(), layer.ffn.dense().unwrap());
    assert_eq!(model.format().kind, FormatKind::HuggingFace);
    assert_eq!((network.vocab_len, network.hidden_len, dense.ffn_len), (8192, 512, 1536));
    assert_eq!(network.layers.len(), 12);
    assert_eq!((attention.heads, attention.kv_heads, attention.head_dim), (8, 2, 64));
    assert_eq!(dense.activation, Activation::Relu2);
    assert_eq!((info.bos, info.eos.as_slice()), (Some(0), [1, 2].as_slice()));
    let block = info.block_diffusion.unwrap();
    assert_eq!((block.mask_token, block.block_len, block.sub_block_len), (3, 32, Some(8)));
    assert!(
        block.token_shift
            && block.causal_context
            && network.head.tied
            && attention.sub_norm.is_some()
    );
    assert!(matches!(model.tokenizer(), TokenizerSource::Json(_)));
    assert!(model.chat_template().unwrap().contains("<|eot_id|>"));
    assert_eq!(model.special_token_texts().eos.as_deref(), Some("<|eot_id|>"));
    assert!(model.extra_tensors().is_empty());
}

fn compare(peer: &str, embedding_tolerance: f32) {
    let Some(source) = open("models/demo") else { return };
    let Some(peer) = open(peer) else { return };
    assert_eq!(activation(&peer), activation(&source));
    let theta =
        |model: &ModelFile| model.network().layers[0].attention().unwrap().rope.unwrap().theta;
    assert_eq!(theta(&peer), theta(&source));
    assert_eq!(peer.network().norm, source.network().norm);
    for info in source.tensors() {
        let other = peer.tensor(info.name).unwrap();
        if info.name.is_linear() {
            assert!(trits(&source, info.name) == trits(&peer, info.name), "{}", info.name);
            assert_eq!(source.scales(info).unwrap(), peer.scales(other).unwrap(), "{}", info.name);
        } else {
            let mut ours = vec![0.0; info.rows * info.cols];
            let mut theirs = ours.clone();
            source.floats(info, 0..info.rows, &mut ours).unwrap();
            peer.floats(other, 0..info.rows, &mut theirs).unwrap();
            let most = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let allowed =
                if info.name == TensorName::Embedding { embedding_tolerance } else { 0.0 };
            assert!(most <= allowed, "{}: {most}", info.name);
        }
    }
}

#[test]
fn writes_the_bytes_of_llama_cpp() {
    let (Some(source), Some(peer)) =
        (open("models/demo"), open("golden/peer-files/demo.TQ2_0.gguf"))
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.gguf");
    let target = Target::new(Container::Gguf(TernaryEncoding::TQ2_0), FloatEncoding::F16);
    target.write(&source, &path).unwrap();
    let ours = support::open(&path);
    let mut same = 0;
    for info in ours.tensors() {
        let theirs = peer.tensor(info.name).unwrap();
        // llama.cpp gives a group of zeros the scale 0; we keep the scale of the tensor.
        let has_zero_groups = info.name.is_linear()
            && decode_scales(TernaryEncoding::TQ2_0, peer.bytes(theirs), info.rows, info.cols)
                .unwrap()
                .values()
                .contains(&0.0);
        if has_zero_groups {
            continue;
        }
        assert!(ours.bytes(info) == peer.bytes(theirs), "{}", info.name);
        same += 1;
    }
    assert!(same > 100, "only {same} tensors could be compared");
}

#[test]
fn llama_cpp_wrote_tq2_0() {
    compare("golden/peer-files/demo.TQ2_0.gguf", 1e-4);
}

#[test]
fn ik_llama_cpp_wrote_iq2_bn() {
    compare("golden/peer-files/demo.IQ2_BN.gguf", 1e-2);
}
