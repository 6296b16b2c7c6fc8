//! Embedding models of other families, from files of bitnet.cpp's converter, against
//! `transformers` (`tools/golden/embedding.py`), and bit for bit against themselves.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use wf_engine::{
    EmbeddingRequest, Frontend, ModelSource, Pooling, RunOptions, TokenId, open_model,
};
use wf_formats::{Container, FloatEncoding, ModelFile, OpenOptions, Target, TernaryEncoding};
use wf_model::{Compute, KvDtype};

const FAMILIES: [&str; 2] = ["qwen3", "gemma3"];

#[derive(Deserialize)]
struct Golden {
    text: String,
    ids: Vec<TokenId>,
    last: Vec<f64>,
    mean: Vec<f64>,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/embedding").join(name)
}

fn golden(family: &str) -> Vec<Golden> {
    serde_json::from_slice(&std::fs::read(data(&format!("{family}.json"))).unwrap()).unwrap()
}

fn open(path: PathBuf, options: &RunOptions) -> Frontend {
    open_model(&ModelSource::Path(path), options, &mut |_| {}).unwrap().frontend
}

fn vector(frontend: &Frontend, ids: &[TokenId], pooling: Option<Pooling>) -> Vec<f32> {
    let embed = EmbeddingRequest { pooling, ..EmbeddingRequest::new(ids.to_vec()) };
    frontend.embed(embed).unwrap().vector_blocking().unwrap()
}

/// Returns the bits of every golden text's vector, by every pooling.
fn all_bits(frontend: &Frontend, golden: &[Golden]) -> Vec<Vec<u32>> {
    let poolings = [None, Some(Pooling::Mean), Some(Pooling::First)];
    let all = golden.iter().flat_map(|one| poolings.map(|pooling| (one, pooling)));
    all.map(|(one, pooling)| vector(frontend, &one.ids, pooling))
        .map(|vector| vector.into_iter().map(f32::to_bits).collect())
        .collect()
}

#[test]
fn vectors_equal_those_of_transformers() {
    for family in FAMILIES {
        let options = RunOptions { kv: KvDtype::F32, ..RunOptions::default() };
        let frontend = open(data(&format!("{family}.gguf")), &options);
        assert_eq!(frontend.pooling(), Pooling::Last, "as the file says");
        for one in golden(family) {
            assert_eq!(frontend.text().embed_ids(&one.text), one.ids, "{family}: {:?}", one.text);
            for (pooling, expected) in [(None, &one.last), (Some(Pooling::Mean), &one.mean)] {
                let ours = vector(&frontend, &one.ids, pooling);
                let dot = ours.iter().zip(expected).map(|(a, b)| f64::from(*a) * b);
                let cosine: f64 = dot.sum();
                assert!(cosine >= 0.9999, "{family}, {:?}: cosine {cosine}", one.text);
            }
        }
    }
}

#[test]
fn instruction_sets_threads_and_steps_change_no_bit() {
    for family in FAMILIES {
        let (path, golden) = (data(&format!("{family}.gguf")), golden(family));
        let first = all_bits(&open(path.clone(), &RunOptions::default()), &golden);
        for isa in Compute::supported() {
            for (threads, max_batch_tokens) in [(1, 256), (2, 5)] {
                let isa = Some(isa);
                let options =
                    RunOptions { isa, threads, max_batch_tokens, ..RunOptions::default() };
                let found = all_bits(&open(path.clone(), &options), &golden);
                assert_eq!(found, first, "{family} on {isa:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn embedding_models_convert_to_gguf_and_are_rejected_elsewhere() {
    for family in FAMILIES {
        let folder = tempfile::tempdir().unwrap();
        let source = ModelFile::open(&data(&format!("{family}.gguf")), &OpenOptions::default());
        let source = source.unwrap();
        let target = Target::new(Container::Gguf(TernaryEncoding::I2_S), FloatEncoding::F16);
        let copy = folder.path().join("copy.gguf");
        target.write(&source, &copy).unwrap();
        let (golden, options) = (golden(family), RunOptions::default());
        let ours = open(copy, &options);
        let theirs = open(data(&format!("{family}.gguf")), &options);
        assert_eq!(all_bits(&ours, &golden), all_bits(&theirs, &golden));
        assert_eq!(ours.text().embed_ids("a cat"), theirs.text().embed_ids("a cat"));
        let packed = Target::new(Container::Packed, FloatEncoding::F16)
            .write(&source, &folder.path().join("packed"));
        let message = packed.unwrap_err().to_string();
        assert!(message.contains(&format!("{family} is written to GGUF only")), "{message}");
    }
}
