//! Mixtures of experts against `transformers` in float32 (`tools/golden/experts.py`), and bit for bit
//! against themselves.

use std::path::{Path, PathBuf};

use wf_core::ActivationCodes;
use wf_formats::{Container, FloatEncoding, ModelFile, Target, TernaryEncoding};
use wf_model::{Compute, Forward, Logits, Model, PageId, Segment};

use crate::directory::{USUAL, float_directory};
use crate::recorded::{Golden, assert_best_tokens, bits, differences, logits, open, options};

const MODELS: [&str; 4] = ["renormalized", "plain", "shared", "ungated"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/experts").join(name)
}

fn gguf(name: &str) -> ModelFile {
    open(&data(&format!("{name}.gguf")))
}

fn load(file: &ModelFile, compute: Compute, activations: Option<ActivationCodes>) -> Model {
    Model::load(file, compute, options(activations), &mut |_| {}).unwrap()
}

#[test]
fn logits_are_those_of_transformers_up_to_the_codes_of_activations() {
    // By default sixteen bits, because these models are trained with activations in floats.
    let codes = [
        (None, 2e-4, 2e-3),
        (Some(ActivationCodes::Int8), 0.02, 0.2),
        (Some(ActivationCodes::Int8Group), 0.02, 0.2),
        (Some(ActivationCodes::F32), 1e-5, 1e-4),
    ];
    for (name, (activations, max_median, max)) in
        MODELS.into_iter().flat_map(|name| codes.map(|codes| (name, codes)))
    {
        let golden = Golden::read(&data(name));
        let mut model = load(&gguf(name), Compute::new(2), activations);
        let found = logits(&mut model, &golden.ids, &golden.scored, 512);
        let (median, largest) = differences(&found, &golden.logits);
        let case = format!("{name}, {activations:?}: median {median}, largest {largest}");
        println!("{case}");
        assert!(median < max_median && largest < max, "{case}");
        let codes = activations.unwrap_or(ActivationCodes::Int16);
        assert_best_tokens(&case, &found, &golden.logits, codes);
    }
}

#[test]
fn threads_chunks_and_instruction_sets_change_no_bit() {
    for (name, codes) in MODELS.into_iter().flat_map(|m| ActivationCodes::ALL.map(|c| (m, c))) {
        let Golden { ids, scored, .. } = Golden::read(&data(name));
        let file = gguf(name);
        let load = |compute| load(&file, compute, Some(codes));
        let expected = bits(&logits(&mut load(Compute::new(1)), &ids, &scored, 512));
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 1), (3, 7), (2, 64), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let found = bits(&logits(&mut load(compute), &ids, &scored, chunk));
                assert!(found == expected, "{name}, {codes}: {isa} on {threads}, {chunk}");
            }
        }
    }
}

#[test]
fn other_sequences_of_a_batch_change_no_bit() {
    for (name, codes) in MODELS.into_iter().flat_map(|m| ActivationCodes::ALL.map(|c| (m, c))) {
        let Golden { ids, .. } = Golden::read(&data(name));
        let mut model = load(&gguf(name), Compute::new(2), Some(codes));
        let prompts = [&ids[..50], &ids[50..51], &ids[60..93], &ids[100..190]];
        let pages: [&[PageId]; 4] = [&[0, 1], &[2], &[3, 4], &[5, 6, 7]];
        let last = prompts.map(|prompt| [prompt.len() - 1]);
        let segment = |i: usize| Segment::causal(prompts[i], 0, pages[i], &last[i]);
        let mut out = Logits::new(model.network().vocab_len);
        let alone: Vec<Vec<f32>> = (0..4)
            .map(|i| {
                model.forward(&[segment(i)], &mut out);
                out.row(0).to_vec()
            })
            .collect();
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            model.forward(&order.map(segment), &mut out);
            for (row, i) in order.into_iter().enumerate() {
                assert_eq!(out.row(row), alone[i], "{name}, {codes}: prompt {i} in {order:?}");
            }
        }
    }
}

#[test]
fn every_file_gives_the_same_bits() {
    for name in MODELS {
        let folder = tempfile::tempdir().unwrap();
        let Golden { ids, scored, .. } = Golden::read(&data(name));
        let source = gguf(name);
        let run = |path: &Path| {
            let file = open(path);
            assert_eq!(file.network(), source.network(), "{name}: {}", path.display());
            bits(&logits(&mut load(&file, Compute::new(2), None), &ids, &scored, 512))
        };
        let expected = run(&data(&format!("{name}.gguf")));
        float_directory(&data(name), &source, folder.path(), &USUAL);
        assert_eq!(run(folder.path()), expected, "{name}: a directory of floats");
        let mut containers = vec![Container::Wf];
        if name != "plain" {
            use TernaryEncoding as T;
            containers.extend([T::Q2_0, T::Q2_0_G128, T::PQ2_0, T::PTQ1_0].map(Container::Gguf));
        }
        for container in containers {
            let path = folder.path().join("copy");
            let head = Target::default_head(&source, container).unwrap();
            Target::new(container, head).write(&source, &path).unwrap();
            assert_eq!(run(&path), expected, "{name} in {container:?}");
        }
    }
}

#[test]
fn formats_without_experts_refuse_them_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, container: Container| {
        let source = gguf(name);
        let target = Target::new(container, FloatEncoding::F32);
        target.write(&source, &folder.path().join("copy")).unwrap_err().to_string()
    };
    let error = refused("plain", Container::Gguf(TernaryEncoding::Q2_0));
    assert!(error.contains("not renormalized, which llama.cpp does not read: use .wf"), "{error}");
    let error = refused("renormalized", Container::Gguf(TernaryEncoding::I2_S));
    assert!(error.contains("the experts of a layer are one tensor of GGUF"), "{error}");
    for container in [Container::Packed, Container::Sglbitnt] {
        let error = refused("renormalized", container);
        assert!(error.contains("qwen3moe is written to GGUF and .wf only"), "{error}");
    }
}
