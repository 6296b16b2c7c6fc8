//! Llama models that quantize weights only, against `transformers` in float32 (`tools/golden/llama.py`): a file as
//! `llama-quantize` writes it, and directories of floats that say nothing of quantization.

use std::path::{Path, PathBuf};

use wf_core::{ActivationCodes, RopeScaling};
use wf_formats::{
    Container, Encoding, FloatEncoding, LayerTensor, ModelFile, Scales, Target, TensorName,
    TernaryEncoding,
};
use wf_model::{Compute, Model, ModelOptions};

use crate::directory::{Checkpoint, USUAL, float_directory};
use crate::recorded::{Golden, assert_best_tokens, bits, differences, logits, open, options};

/// Length of the recorded prompts, to which the frequencies of dynamic scaling fit.
const CONTEXT: usize = 300;

/// A recorded model, and the type of its checkpoint.
struct Case {
    name: &'static str,
    float: FloatEncoding,
}

const CASES: [Case; 3] = [
    Case { name: "quantized", float: FloatEncoding::F32 },
    Case { name: "llama3", float: FloatEncoding::BF16 },
    Case { name: "dynamic", float: FloatEncoding::F16 },
];

impl Case {
    fn data(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/llama").join(self.name)
    }

    fn gguf(&self) -> ModelFile {
        open(&self.data().with_extension("gguf"))
    }

    fn directory(&self, folder: &Path) -> ModelFile {
        let checkpoint = Checkpoint { float: self.float, ..USUAL };
        float_directory(&self.data(), &self.gguf(), folder, &checkpoint);
        let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
        assert!(!config.contains("quantization_config"));
        open(folder)
    }
}

fn run(file: &ModelFile, golden: &Golden, codes: Option<ActivationCodes>) -> Vec<Vec<f32>> {
    let options = ModelOptions { context_len: Some(CONTEXT), ..options(codes) };
    let mut model = Model::load(file, Compute::new(2), options, &mut |_| {}).unwrap();
    logits(&mut model, &golden.ids, &golden.scored, 512)
}

#[track_caller]
fn check(file: &ModelFile, golden: &Golden, case: &str) {
    for codes in ActivationCodes::ALL {
        let found = run(file, golden, Some(codes));
        let (max_median, max) = match codes {
            ActivationCodes::F32 => (1e-5, 1e-4),
            ActivationCodes::Int16 => (2e-4, 2e-3),
            ActivationCodes::Int8 | ActivationCodes::Int8Group => (0.03, 0.25),
        };
        let (median, largest) = differences(&found, &golden.logits);
        assert!(median < max_median && largest < max, "{case}, {codes}: {median}, {largest}");
        assert_best_tokens(case, &found, &golden.logits, codes);
    }
}

#[test]
fn logits_are_those_of_transformers_from_both_kinds_of_files() {
    for case in CASES {
        let golden = Golden::read(&case.data());
        check(&case.gguf(), &golden, case.name);
        let folder = tempfile::tempdir().unwrap();
        let directory = case.directory(folder.path());
        // Floats that nothing says how to quantize are run with activations in floats.
        assert_eq!(directory.network().activations, ActivationCodes::Int16, "{}", case.name);
        check(&directory, &golden, &format!("{} in {}", case.name, case.float));
    }
}

#[test]
fn a_file_of_llama_quantize_has_its_types() {
    let [case, ..] = CASES;
    let file = case.gguf();
    let encoding = |name| file.tensor(name).unwrap().encoding;
    assert_eq!(encoding(TensorName::Embedding), Encoding::Float(FloatEncoding::Q4_K));
    assert_eq!(encoding(TensorName::Output), Encoding::Float(FloatEncoding::Q6_K));
    for name in TensorName::all(file.network()).filter(|name| name.is_linear()) {
        assert_eq!(encoding(name), Encoding::Ternary(TernaryEncoding::TQ2_0), "{name}");
    }
    let down = file.tensor(TensorName::Layer(0, LayerTensor::Down)).unwrap();
    assert!(matches!(file.scales(down).unwrap(), Scales::Groups { len: 256, .. }));
}

#[test]
fn trits_and_their_scale_are_found_in_floats() {
    for case in &CASES[1..] {
        let folder = tempfile::tempdir().unwrap();
        let (gguf, directory) = (case.gguf(), case.directory(folder.path()));
        assert_eq!(
            directory.tensor(TensorName::Embedding).unwrap().encoding,
            Encoding::Float(case.float)
        );
        for tensor in [LayerTensor::Value, LayerTensor::Down] {
            let name = TensorName::Layer(0, tensor);
            let of = |file: &ModelFile| file.scales(file.tensor(name).unwrap()).unwrap();
            let found = directory.tensor(name).unwrap().encoding;
            assert_eq!(found, Encoding::TernaryFloats(case.float), "{name}");
            assert!(matches!(of(&directory), Scales::Tensor(_)), "{name}");
            assert_eq!(of(&directory), of(&gguf), "{name}");
        }
    }
    let scaling = |case: &Case, folder: &Path| {
        let directory = case.directory(folder);
        let layer = directory.network().layers[0];
        layer.rope().unwrap().scaling
    };
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(scaling(&CASES[1], folder.path()), RopeScaling::Llama3 { .. }));
    assert!(matches!(scaling(&CASES[2], folder.path()), RopeScaling::Dynamic { .. }));
}

#[test]
fn conversions_give_the_same_bits() {
    for case in CASES {
        let golden = Golden::read(&case.data());
        let folder = tempfile::tempdir().unwrap();
        let source = case.directory(folder.path());
        let copy = folder.path().join("copy");
        let head = Target::default_head(&source, Container::Wf).unwrap();
        Target::new(Container::Wf, head).write(&source, &copy).unwrap();
        let expected = bits(&run(&source, &golden, None));
        assert!(bits(&run(&open(&copy), &golden, None)) == expected, "{}", case.name);
    }
}
