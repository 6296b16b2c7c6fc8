//! Hybrids whose weights are under a Walsh–Hadamard transform, against logits that NumPy computed in float64
//! (`tools/golden/hadamard.py`), from every kind of file, and bit for bit against themselves.

use wf_core::ActivationCodes;
use wf_formats::{Container, FloatEncoding, ModelFile, Target, TernaryEncoding};
use wf_model::Compute;

use crate::qwen35::{assert_close, data, gguf, load};
use crate::recorded::{Golden, assert_best_tokens, bits, logits, open};

/// With signs, transformed tables and grouped value heads; and without any of them.
const CASES: [&str; 2] = ["hadamard", "hadamard-plain"];

#[test]
fn the_files_declare_what_they_are_meant_to_test() {
    let transforms = CASES.map(|name| gguf(name).network().hadamard.clone().unwrap());
    let [signed, plain] = &transforms;
    assert_eq!((signed.block_len, plain.block_len), (64, 128));
    assert_eq!(signed.signs.iter().map(Vec::len).collect::<Vec<_>>(), [128, 256, 512]);
    assert!(signed.embedding && signed.head && signed.grouped_values);
    assert!(plain.signs.is_empty() && !(plain.embedding || plain.head || plain.grouped_values));
}

#[test]
fn logits_are_those_of_the_definition_up_to_the_codes_of_activations() {
    for name in CASES {
        let (golden, file) = (Golden::read(&data(name)), gguf(name));
        for codes in ActivationCodes::ALL {
            let mut model = load(&file, Compute::new(2), Some(codes));
            let found = logits(&mut model, &golden.ids, &golden.scored, 512);
            assert_close(name, &found, &golden, codes);
            assert_best_tokens(name, &found, &golden.logits, codes);
        }
    }
}

#[test]
fn threads_chunks_and_instruction_sets_change_no_bit() {
    for name in CASES {
        let (Golden { ids, scored, .. }, file) = (Golden::read(&data(name)), gguf(name));
        let expected = bits(&logits(&mut load(&file, Compute::new(1), None), &ids, &scored, 512));
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 1), (3, 7), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let found = bits(&logits(&mut load(&file, compute, None), &ids, &scored, chunk));
                assert!(found == expected, "{name}: {isa} on {threads}, {chunk}");
            }
        }
    }
}

#[test]
fn converted_files_have_the_same_transform_and_the_same_bits() {
    use TernaryEncoding as T;
    for name in CASES {
        let (golden, source) = (Golden::read(&data(name)), gguf(name));
        let run = |file: &ModelFile| {
            let mut model = load(file, Compute::new(2), None);
            logits(&mut model, &golden.ids, &golden.scored, 512)
        };
        let (expected, folder) = (bits(&run(&source)), tempfile::tempdir().unwrap());
        let path = folder.path().join("copy");
        let groups = [T::Q2_0, T::PQ2_0, T::PTQ1_0].map(Container::Gguf);
        for container in groups.into_iter().chain([Container::Wf]) {
            let head = Target::default_head(&source, container).unwrap();
            Target::new(container, head).write(&source, &path).unwrap();
            let copy = open(&path);
            assert_eq!(copy.network(), source.network(), "{name}: {container:?}");
            assert!(bits(&run(&copy)) == expected, "{name}: {container:?}: other bits");
        }
        Target::new(Container::Gguf(T::PQ2_0), FloatEncoding::F32).write(&source, &path).unwrap();
        let what = format!("{name}: tables of floats");
        assert_close(&what, &run(&open(&path)), &golden, ActivationCodes::Int16);
    }
}
