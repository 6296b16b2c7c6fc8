//! Hybrids with a multi-token prediction head, against logits that NumPy computed in float64 (`tools/golden/mtp.py`), from every
//! kind of file, and bit for bit against themselves.

use wf_core::ActivationCodes;
use wf_formats::{
    Container, Encoding, LayerTensor, ModelFile, Target, TensorName, TernaryEncoding,
};
use wf_model::{Compute, Forward, Logits, Model, PageId, Segment};

use crate::qwen35::{assert_close, data, gguf, load};
use crate::recorded::{Golden, assert_best_tokens, bits, logits, open};

/// An input projection of trits, and one of floats.
const CASES: [&str; 2] = ["mtp", "mtp-float"];

/// The recorded logits of the network, and those of the head.
fn golden(name: &str) -> (Golden, Golden) {
    (Golden::read(&data(name)), Golden::read(&data(&format!("{name}-head"))))
}

/// Returns the logits of the head behind the scored tokens. It follows the prompt, which is read `chunk` tokens at a time,
/// and continues by its own states behind it.
fn predictions(model: &mut Model, head: &Golden, prompt_len: usize, chunk: usize) -> Vec<Vec<f32>> {
    let pages: Vec<PageId> = (0..24).rev().collect();
    let mut out = Logits::new(model.network().vocab_len);
    let (mut read, mut rows) = (0, Vec::new());
    for &at in &head.scored {
        let end = at.min(prompt_len - 1);
        while read < end {
            let tokens = &head.ids[read..end.min(read + chunk)];
            let segment = Segment::causal(tokens, read, &pages, &[]);
            model.forward(&[Segment { predicts: true, ..segment }], &mut out);
            read += tokens.len();
        }
        model.predict(&[Segment::causal(&head.ids[at..=at], at, &pages, &[0])], &mut out);
        rows.push(out.row(0).to_vec());
    }
    rows
}

#[test]
fn logits_are_those_of_the_definition_up_to_the_codes_of_activations() {
    for name in CASES {
        let ((network, head), file) = (golden(name), gguf(name));
        assert!(file.network().mtp.is_some() && file.extra_tensors().is_empty(), "{name}");
        for codes in ActivationCodes::ALL {
            let mut model = load(&file, Compute::new(2), Some(codes));
            let found = logits(&mut model, &network.ids, &network.scored, 512);
            assert_close(name, &found, &network, codes);
            let found = predictions(&mut model, &head, network.ids.len(), 512);
            assert_close(&format!("{name}, head"), &found, &head, codes);
            assert_best_tokens(name, &found, &head.logits, codes);
        }
    }
}

#[test]
fn threads_chunks_and_instruction_sets_change_no_bit() {
    for name in CASES {
        let ((network, head), file) = (golden(name), gguf(name));
        let len = network.ids.len();
        let mut model = load(&file, Compute::new(1), None);
        let expected = bits(&predictions(&mut model, &head, len, 512));
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 1), (3, 7), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let mut model = load(&file, compute, None);
                let found = bits(&predictions(&mut model, &head, len, chunk));
                assert!(found == expected, "{name}: {isa} on {threads}, {chunk}");
            }
        }
    }
}

/// The head follows a sequence through drafts, kept or dropped, and through copies of its state, and other sequences of the step
/// do not matter. It changes no logits of the network.
#[test]
fn drafts_copies_and_other_sequences_change_no_bit() {
    let ((network, head), file) = (golden("mtp"), gguf("mtp"));
    let ids = &head.ids[..];
    let mut alone = load(&file, Compute::new(2), None);
    let ends = [40, 41, 47, 64];
    let scored = Golden { ids: ids.to_vec(), scored: ends.to_vec(), logits: Vec::new() };
    let expected = bits(&predictions(&mut alone, &scored, network.ids.len(), 512));
    let of_network = bits(&logits(&mut alone, ids, &ends, 512));

    let mut model = load(&file, Compute::new(2), None).with_states(4);
    let mut out = Logits::new(model.network().vocab_len);
    let pages: Vec<PageId> = (0..24).collect();
    let (pages, others) = pages.split_at(8);
    let other = Segment { state: 0, ..Segment::causal(&[3, 9, 27], 0, others, &[]) };
    // Nothing but the prompt, and a sequence that the head does not follow.
    let prompt = Segment::causal(&ids[..40], 0, pages, &[]);
    let prompt = Segment { state: 2, predicts: true, ..prompt };
    model.forward(&[other, prompt], &mut out);
    let mut state = 2;
    for (round, (&at, next)) in ends.iter().zip([41, 47, 64, 65]).enumerate() {
        for repeat in 0..2 {
            // Drafts of the head leave no trace.
            let behind = [ids[at], 5, 7];
            for (position, token) in (at..).zip(&behind) {
                let token = std::slice::from_ref(token);
                let segment = Segment::causal(token, position, pages, &[0]);
                model.predict(&[Segment { state, ..segment }], &mut out);
                if position == at {
                    let found = bits(&[out.row(0).to_vec()]);
                    assert!(found[0] == expected[round], "position {at}, time {repeat}");
                }
            }
            model.copy_state(state, 3 - round % 2);
            state = 3 - round % 2;
        }
        // One certain token, then right drafts, then wrong ones.
        let run = [&ids[at..next], &[1, 2, 3]].concat();
        let segment = Segment { state, ..Segment::causal(&run, at, pages, &[0]) };
        let drafts = run.len() - 1;
        model.forward(&[Segment { drafts, predicts: true, ..segment }], &mut out);
        assert!(bits(&[out.row(0).to_vec()])[0] == of_network[round], "logits at {at}");
        model.keep_drafts(state, next);
    }
}

#[test]
fn converted_files_have_the_same_head_and_the_same_bits() {
    use TernaryEncoding as T;
    for name in CASES {
        let ((network, head), source) = (golden(name), gguf(name));
        let run = |file: &ModelFile| {
            let mut model = load(file, Compute::new(2), None);
            bits(&predictions(&mut model, &head, network.ids.len(), 512))
        };
        let (expected, folder) = (run(&source), tempfile::tempdir().unwrap());
        let path = folder.path().join("copy");
        let groups = [T::Q2_0, T::PQ2_0, T::PTQ1_0].map(Container::Gguf);
        for container in groups.into_iter().chain([Container::Wf]) {
            let head = Target::default_head(&source, container).unwrap();
            Target::new(container, head).write(&source, &path).unwrap();
            let copy = open(&path);
            assert_eq!(copy.network(), source.network(), "{name}: {container:?}");
            let input = TensorName::Layer(copy.network().layers.len(), LayerTensor::MtpInput);
            let is_float = matches!(copy.tensor(input).unwrap().encoding, Encoding::Float(_));
            assert_eq!(is_float, name == "mtp-float", "{container:?}");
            assert!(run(&copy) == expected, "{name}: {container:?}: other bits");
        }
    }
}

#[test]
fn the_head_takes_a_layer_of_the_cache_and_two_states_of_each_sequence() {
    let (with, mut without) = (gguf("mtp").network().clone(), gguf("mtp").network().clone());
    without.mtp = None;
    assert_eq!(with.kv_layers(), without.kv_layers() + 1);
    let bytes = 2 * with.hidden_len * size_of::<f32>();
    assert_eq!(Model::state_bytes(&with), Model::state_bytes(&without) + bytes);
}
