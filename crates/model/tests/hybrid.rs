//! Hybrids of recurrent and attention layers against logits of `transformers` in float32 (`tools/golden`), from
//! every kind of file, and bit for bit against themselves.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use wf_core::{ActivationCodes, DeltaNet, ValueHeadOrder};
use wf_formats::encoding::encode_floats;
use wf_formats::{
    Container, FloatEncoding, LayerTensor, ModelFile, SafetensorsWriter, Target, TensorName,
    TernaryEncoding,
};
use wf_model::{Compute, Forward, Logits, Model, PageId, Segment, TokenId};

use crate::qwen35::{assert_close, data, gguf, load};
use crate::recorded::{Golden, assert_best_tokens, bits, logits, open};
use crate::reference::Reference;

/// Two value heads for each key head, in another order than in checkpoints; and one for each.
const CASES: [&str; 2] = ["tiled", "equal"];

#[test]
fn logits_are_those_of_transformers_up_to_the_codes_of_activations() {
    for name in CASES {
        let (golden, file) = (Golden::read(&data(name)), gguf(name));
        assert_eq!(file.network().activations, ActivationCodes::Int16, "{name}");
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
            for (threads, chunk) in [(1, 1), (3, 7), (2, 64), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let found = bits(&logits(&mut load(&file, compute, None), &ids, &scored, chunk));
                assert!(found == expected, "{name}: {isa} on {threads}, {chunk}");
            }
        }
    }
}

/// Sequences of one step, whose states are in another order than their rows, do not change each other, and a
/// copied state continues as its source does.
#[test]
fn sequences_of_a_batch_and_copied_states_are_independent() {
    let (golden, file) = (Golden::read(&data("tiled")), gguf("tiled"));
    let alone = |ids: &[TokenId]| {
        let mut model = load(&file, Compute::new(2), None);
        bits(&logits(&mut model, ids, &[ids.len() - 1], 512))
    };
    let (first, second) = (&golden.ids[..70], &golden.ids[300..333]);
    let mut model = load(&file, Compute::new(2), None).with_states(4);
    assert_eq!(model.states(), 4);
    let mut out = Logits::new(model.network().vocab_len);
    let pages: Vec<PageId> = (0..24).collect();
    let segment = |tokens, start, pages, scored, state| Segment {
        state,
        ..Segment::causal(tokens, start, pages, scored)
    };
    let head = [
        segment(&first[..40], 0, &pages[..8], &[], 2),
        segment(&second[..7], 0, &pages[8..], &[], 0),
    ];
    model.forward(&head, &mut out);
    model.copy_state(2, 3);
    let tail = [
        segment(&second[7..], 7, &pages[8..], &[25], 0),
        segment(&first[40..], 40, &pages[..8], &[29], 2),
    ];
    for states in [[0, 2], [1, 3]] {
        if states == [1, 3] {
            // Another sequence in the first slot, and the copy in place of its source.
            model.forward(&[segment(&second[..7], 0, &pages[8..], &[], 1)], &mut out);
        }
        let tail = [0, 1].map(|at| Segment { state: states[at], ..tail[at] });
        model.forward(&tail, &mut out);
        let found = bits(&[out.row(0).to_vec(), out.row(1).to_vec()]);
        assert_eq!(found, [alone(second), alone(first)].concat(), "{states:?}");
    }
}

/// Drafts that are dropped leave no trace, those that are kept count, and the number of either does not matter; two
/// sequences draft in one step.
#[test]
fn a_state_moves_on_by_the_drafts_that_are_kept() {
    let (golden, file) = (Golden::read(&data("tiled")), gguf("tiled"));
    let (first, second) = (&golden.ids[..64], &golden.ids[300..364]);
    let alone = |ids: &[TokenId]| {
        let scored: Vec<usize> = (0..ids.len()).collect();
        bits(&logits(&mut load(&file, Compute::new(2), None), ids, &scored, 512))
    };
    let expected = [alone(first), alone(second)];
    let mut model = load(&file, Compute::new(2), None).with_states(3);
    let mut out = Logits::new(model.network().vocab_len);
    let pages: Vec<PageId> = (0..24).collect();
    let pages = [&pages[..12], &pages[12..]];
    let mut done = [0, 0];
    for round in 1.. {
        let open: Vec<usize> = (0..2).filter(|&at| done[at] < 64).collect();
        if open.is_empty() {
            break;
        }
        // A certain token, then right and wrong drafts, more or fewer from round to round.
        let right =
            [0, 1].map(|at: usize| (round * (at + 2) % 7).min(63_usize.saturating_sub(done[at])));
        let run = open.iter().map(|&at| {
            let known = &[first, second][at][done[at]..=done[at] + right[at]];
            let wrong = [5, 7, 9].into_iter().take((round + at) % 4);
            known.iter().copied().chain(wrong).collect::<Vec<TokenId>>()
        });
        let run: Vec<_> = run.collect();
        let scored: Vec<Vec<usize>> = open.iter().map(|&at| (0..=right[at]).collect()).collect();
        let segment = |n: usize| Segment {
            state: 2 - open[n],
            drafts: run[n].len() - 1,
            ..Segment::causal(&run[n], done[open[n]], pages[open[n]], &scored[n])
        };
        let batch: Vec<_> = (0..open.len()).map(segment).collect();
        model.forward(&batch, &mut out);
        let mut row = 0;
        for at in open {
            let kept = done[at]..done[at] + 1 + right[at];
            let found: Vec<_> =
                kept.clone().map(|n| out.row(row + n - kept.start).to_vec()).collect();
            assert!(bits(&found) == expected[at][kept.clone()], "sequence {at}, {kept:?}");
            row += kept.len();
            done[at] = kept.end;
            model.keep_drafts(2 - at, kept.end);
        }
    }
}

#[test]
#[should_panic(expected = "65 drafts, at most 64")]
fn a_step_has_a_limited_number_of_drafts() {
    let file = gguf("tiled");
    let mut model = load(&file, Compute::new(1), None);
    assert_eq!(model.max_drafts(), 64);
    let pages: Vec<PageId> = (0..4).collect();
    let segment = Segment { drafts: 65, ..Segment::causal(&[1; 66], 0, &pages, &[]) };
    model.forward(&[segment], &mut Logits::new(model.network().vocab_len));
}

/// Inputs of 64 drafts, whatever the number of states: channels and two gates a value head, in three layers.
#[test]
fn drafts_take_a_bounded_number_of_bytes() {
    let file = gguf("tiled");
    assert_eq!(Model::draft_bytes(file.network()), 3 * 64 * (2 * 64 + 512 + 2 * 4) * 4);
    assert_eq!(Model::state_bytes(file.network()), 3 * (4 * 32 * 128 + 3 * (2 * 64 + 512)) * 4);
}

/// Writes the model recorded under a name as `transformers` saves it, with the names that `rename` gives.
fn directory(name: &str, folder: &Path, config: &Value, rename: fn(&str) -> String) {
    let (path, file) = (data(name), gguf(name));
    let shapes = std::fs::read(path.with_extension("tensors.json")).unwrap();
    let shapes: BTreeMap<String, Vec<usize>> = serde_json::from_slice(&shapes).unwrap();
    let all: Vec<TensorName> = TensorName::all(file.network()).collect();
    assert_eq!(all.len(), shapes.len());
    let mut writer = SafetensorsWriter::new();
    for tensor in &all {
        let source = tensor.hugging_face();
        writer.declare(&rename(&source), &shapes[&source], FloatEncoding::F32).unwrap();
    }
    let unused = ["model.visual.patch_embed.proj.bias", "mtp.fc.weight"];
    unused.iter().for_each(|name| writer.declare(name, &[2], FloatEncoding::F32).unwrap());
    let weights = std::fs::File::create(folder.join("model.safetensors")).unwrap();
    let mut body = writer.begin(weights).unwrap();
    let logs = Reference::open(&path.with_extension("safetensors"));
    for tensor in all {
        let values = match tensor {
            TensorName::Layer(_, LayerTensor::DeltaDecay) => logs.floats(&tensor.hugging_face()),
            _ => checkpoint_values(&file, tensor),
        };
        body.append(&encode_floats(FloatEncoding::F32, &values).unwrap()).unwrap();
    }
    unused.iter().for_each(|_| body.append(&[0; 8]).unwrap());
    body.finish().unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

/// Returns the values of a tensor with value heads in the order of checkpoints, and without the addend of norms.
fn checkpoint_values(file: &ModelFile, tensor: TensorName) -> Vec<f32> {
    let info = file.tensor(tensor).unwrap();
    let data = file.read(info).unwrap();
    let mut values = vec![0.0; info.rows * info.cols];
    match info.encoding.is_ternary() {
        true => data.weights(&data.scales().unwrap(), 0..info.rows, &mut values).unwrap(),
        false => data.floats(0..info.rows, &mut values).unwrap(),
    }
    let TensorName::Layer(layer, part) = tensor else {
        if tensor.is_norm() {
            values.iter_mut().for_each(|value| *value -= 1.0);
        }
        return values;
    };
    if tensor.is_norm() && part != LayerTensor::DeltaHeadNorm {
        values.iter_mut().for_each(|value| *value -= 1.0);
    }
    let Some(mixer) = file.network().layers[layer].delta_net() else { return values };
    let others = 2 * mixer.key_len() * info.cols;
    match part {
        LayerTensor::DeltaQkv | LayerTensor::DeltaConv => {
            let grouped = grouped(mixer, &values[others..], mixer.value_dim * info.cols);
            values.splice(others.., grouped);
            values
        }
        LayerTensor::DeltaGate => grouped(mixer, &values, mixer.value_dim * info.cols),
        LayerTensor::DeltaBeta | LayerTensor::DeltaAlpha => grouped(mixer, &values, info.cols),
        LayerTensor::DeltaBias => grouped(mixer, &values, 1),
        LayerTensor::DeltaOutput => {
            let rows = values.chunks_exact(info.cols);
            rows.flat_map(|row| grouped(mixer, row, mixer.value_dim)).collect()
        }
        _ => values,
    }
}

/// Returns the blocks of value heads, `len` numbers each, with those of a key head side by side.
fn grouped(mixer: &DeltaNet, values: &[f32], len: usize) -> Vec<f32> {
    if mixer.order == ValueHeadOrder::Grouped {
        return values.to_vec();
    }
    let sharing = mixer.value_heads / mixer.key_heads;
    let heads =
        (0..mixer.key_heads).flat_map(|key| (0..sharing).map(move |at| at * mixer.key_heads + key));
    heads.flat_map(|head| values[head * len..][..len].to_vec()).collect()
}

fn config(name: &str) -> Value {
    let text = std::fs::read(data(name).with_extension("config.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The order of value heads, which decides about the last bits.
fn order(file: &ModelFile) -> ValueHeadOrder {
    file.network().layers[0].delta_net().unwrap().order
}

#[test]
fn every_file_gives_the_same_bits_up_to_the_order_of_value_heads() {
    use TernaryEncoding as T;
    for name in CASES {
        let golden = Golden::read(&data(name));
        let run = |file: &ModelFile, what: &str| {
            let mut model = load(file, Compute::new(2), None);
            let found = logits(&mut model, &golden.ids, &golden.scored, 512);
            assert_close(&format!("{name}: {what}"), &found, &golden, ActivationCodes::Int16);
            bits(&found)
        };
        let (folder, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        directory(name, folder.path(), &config(name), str::to_owned);
        let parts = json!({
            "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
            "text_config": config(name), "vision_config": {},
        });
        directory(name, whole.path(), &parts, |name| {
            name.replace("model.", "model.language_model.")
        });
        let files = [gguf(name), open(folder.path()), open(whole.path())];
        for file in &files[1..] {
            let notes = file.format().decisions.join("; ");
            assert!(notes.contains("vision tower") && notes.contains("prediction head"), "{notes}");
            assert_eq!(file.extra_tensors().len(), 2);
        }
        assert_eq!(files[1].network(), files[2].network(), "{name}");
        let known: Vec<_> = files.iter().map(|file| (file, run(file, "source"))).collect();
        assert!(known[1].1 == known[2].1, "{name}: a checkpoint with other parts");
        assert_eq!(order(&files[0]) == order(&files[1]), name == "equal");
        if name == "equal" {
            assert_eq!(files[0].network(), files[1].network(), "{name}: the directory");
            assert!(known[0].1 == known[1].1, "{name}: other bits in the directory");
        }
        for source in &files[..2] {
            let groups = [T::Q2_0, T::Q2_0_G128, T::PQ2_0, T::PTQ1_0].map(Container::Gguf);
            for container in groups.into_iter().chain([Container::Wf]) {
                let path = folder.path().join("copy");
                let head = Target::default_head(source, container).unwrap();
                Target::new(container, head).write(source, &path).unwrap();
                let copy = open(&path);
                let what = format!("{container:?} of {}", source.info().architecture);
                if container != Container::Wf {
                    assert_eq!(order(&copy), order(&files[0]), "{name}: {what}");
                }
                let (like, expected) =
                    known.iter().find(|(like, _)| order(like) == order(&copy)).unwrap();
                assert_eq!(copy.network(), like.network(), "{name}: {what}");
                assert!(run(&copy, &what) == *expected, "{name}: {what}: other bits");
            }
        }
    }
}
