//! Families with recipes of their own against logits of another program in float32 (`tools/golden`), from
//! every kind of file, and bit for bit against themselves.

use std::path::{Path, PathBuf};

use wf_core::{ActivationCodes, Network, RopeScaling, RotaryPairs};
use wf_formats::{Container, LayerTensor, ModelFile, Target, TensorName, TernaryEncoding};
use wf_model::{Compute, Model};

use crate::directory::{Checkpoint, USUAL, float_directory};
use crate::recorded::{Golden, assert_best_tokens, bits, differences, logits, open, options};

/// A recorded model, and the spelling of its checkpoint.
struct Case {
    path: &'static str,
    checkpoint: Checkpoint,
}

const CASES: [Case; 4] = [
    Case { path: "minicpm/longrope", checkpoint: USUAL },
    Case { path: "minicpm/tied", checkpoint: USUAL },
    Case {
        path: "maple/windows",
        checkpoint: Checkpoint {
            name: |tensor| tensor.hugging_face().replace("embed_tokens", "word_embeddings"),
            ..USUAL
        },
    },
    Case {
        path: "gemma3/windows",
        checkpoint: Checkpoint { name: gemma3_name, norm_addend: 1.0, ..USUAL },
    },
];

fn gemma3_name(tensor: TensorName) -> String {
    let part = match tensor {
        TensorName::Layer(_, LayerTensor::AttnOutputNorm) => "post_attention_layernorm",
        TensorName::Layer(_, LayerTensor::FfnNorm) => "pre_feedforward_layernorm",
        _ => return tensor.hugging_face(),
    };
    format!("model.layers.{}.{part}.weight", tensor.layer().unwrap())
}

impl Case {
    fn data(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(self.path)
    }

    fn gguf(&self) -> ModelFile {
        open(&self.data().with_extension("gguf"))
    }
}

fn load(file: &ModelFile, compute: Compute, activations: Option<ActivationCodes>) -> Model {
    Model::load(file, compute, options(activations), &mut |_| {}).unwrap()
}

/// Returns the differences of logits, which the codes of activations explain.
#[track_caller]
fn assert_close(case: &str, found: &[Vec<f32>], golden: &Golden, codes: ActivationCodes) -> String {
    let (max_median, max) = match codes {
        ActivationCodes::F32 => (1e-5, 1e-4),
        ActivationCodes::Int16 => (2e-4, 2e-3),
        ActivationCodes::Int8 | ActivationCodes::Int8Group => (0.03, 0.25),
    };
    let (median, largest) = differences(found, &golden.logits);
    let what = format!("{case}, {codes}: median {median}, largest {largest}");
    assert!(median < max_median && largest < max, "{what}");
    assert_best_tokens(case, found, &golden.logits, codes);
    what
}

#[test]
fn logits_are_those_of_the_reference_up_to_the_codes_of_activations() {
    for case in CASES {
        let golden = Golden::read(&case.data());
        let file = case.gguf();
        assert_eq!(file.network().activations, ActivationCodes::Int16, "{}", case.path);
        for codes in ActivationCodes::ALL {
            let mut model = load(&file, Compute::new(2), Some(codes));
            let found = logits(&mut model, &golden.ids, &golden.scored, 512);
            println!("{}", assert_close(case.path, &found, &golden, codes));
        }
    }
}

#[test]
fn threads_chunks_and_instruction_sets_change_no_bit() {
    for case in CASES {
        let Golden { ids, scored, .. } = Golden::read(&case.data());
        let file = case.gguf();
        let expected = bits(&logits(&mut load(&file, Compute::new(1), None), &ids, &scored, 512));
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 1), (3, 7), (2, 64), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let found = bits(&logits(&mut load(&file, compute, None), &ids, &scored, chunk));
                assert!(found == expected, "{}: {isa} on {threads}, {chunk}", case.path);
            }
        }
    }
}

/// Returns a network whose attention factors have the precision of GGUF, and of the computation.
fn in_singles(network: &Network) -> Network {
    let mut network = network.clone();
    network.update_layers(|attention, _| {
        let scaling = attention.rope.as_mut().map(|rope| &mut rope.scaling);
        if let Some(RopeScaling::Divided { attention_factor, .. }) = scaling {
            *attention_factor = f64::from(*attention_factor as f32);
        }
    });
    network
}

fn pairs(file: &ModelFile) -> Option<RotaryPairs> {
    file.network().layers.iter().find_map(|layer| Some(layer.rope()?.pairs))
}

#[test]
fn every_file_gives_the_same_bits_up_to_the_order_of_rotary_pairs() {
    use TernaryEncoding as T;
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let golden = Golden::read(&case.data());
        let run = |file: &ModelFile, what: &str| {
            let mut model = load(file, Compute::new(2), None);
            let found = logits(&mut model, &golden.ids, &golden.scored, 512);
            assert_close(
                &format!("{}: {what}", case.path),
                &found,
                &golden,
                ActivationCodes::Int16,
            );
            bits(&found)
        };
        let gguf = case.gguf();
        float_directory(&case.data(), &gguf, folder.path(), &case.checkpoint);
        let directory = open(folder.path());
        let codes = ActivationCodes::F32;
        let mut model = load(&directory, Compute::new(2), Some(codes));
        let found = logits(&mut model, &golden.ids, &golden.scored, 512);
        assert_close(&format!("{}: a directory", case.path), &found, &golden, codes);
        drop(model);
        let known =
            [&gguf, &directory].map(|file| (file.network(), pairs(file), run(file, "source")));
        if pairs(&gguf) == pairs(&directory) {
            assert_eq!(directory.network(), gguf.network(), "{}: the directory", case.path);
            assert!(known[0].2 == known[1].2, "{}: other bits in the directory", case.path);
        }
        for source in [&gguf, &directory] {
            let groups = [T::Q2_0, T::Q2_0_G128, T::PQ2_0, T::PTQ1_0].map(Container::Gguf);
            for container in groups.into_iter().chain([Container::Wf]) {
                let path = folder.path().join("copy");
                let head = Target::default_head(source, container).unwrap();
                Target::new(container, head).write(source, &path).unwrap();
                let copy = open(&path);
                let what = format!("{container:?} of {}", source.info().architecture);
                let same = known.iter().find(|(_, of, _)| *of == pairs(&copy));
                let (network, _, expected) = same.expect("pairs of a source");
                assert_eq!(
                    in_singles(copy.network()),
                    in_singles(network),
                    "{}: {what}",
                    case.path
                );
                assert!(run(&copy, &what) == *expected, "{}: {what}: other bits", case.path);
            }
        }
    }
}

/// Removes `model.` from the names of tensors, as in a model that was saved without its head.
fn strip_prefix(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let (len, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(len.try_into().unwrap()) as usize);
    let header = str::from_utf8(header).unwrap().replace("\"model.", "\"");
    let len = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&len[..], header.as_bytes(), data].concat()).unwrap();
}

#[test]
fn a_bare_gemma_model_gives_the_same_bits() {
    let [.., case] = CASES;
    let golden = Golden::read(&case.data());
    let folder = tempfile::tempdir().unwrap();
    float_directory(&case.data(), &case.gguf(), folder.path(), &case.checkpoint);
    let run = || {
        let mut model = load(&open(folder.path()), Compute::new(2), None);
        bits(&logits(&mut model, &golden.ids, &golden.scored, 512))
    };
    let expected = run();
    strip_prefix(&folder.path().join("model.safetensors"));
    let path = folder.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    assert!(config.contains("Gemma3ForCausalLM"));
    std::fs::write(&path, config.replace("Gemma3ForCausalLM", "Gemma3TextModel")).unwrap();
    assert!(run() == expected);
}

#[test]
fn formats_of_packed_trits_refuse_these_families_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for case in CASES {
        let source = case.gguf();
        for container in [Container::Packed, Container::Sglbitnt] {
            let target = Target::new(container, wf_formats::FloatEncoding::F32);
            let error = target.write(&source, &folder.path().join("copy")).unwrap_err().to_string();
            let expected =
                format!("{} is written to GGUF and .wf only", source.info().architecture);
            assert!(error.contains(&expected), "{error}");
        }
    }
}
