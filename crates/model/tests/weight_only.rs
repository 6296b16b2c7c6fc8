//! Models with weights in groups, a ternary embedding and a ternary head, against `transformers` in
//! float32 (`tools/golden/weight_only.py`), and bit for bit against themselves.

use std::path::{Path, PathBuf};

use wf_formats::encoding::encode_floats;
use wf_formats::{
    Container, Encoding, FloatEncoding, ModelFile, SafetensorsWriter, TableEncoding, Target,
    TensorName, TernaryEncoding,
};
use wf_model::{
    ActivationCodes, Compute, HeadMode, Layout, LoadError, Model, ModelOptions, SparseMode,
};

use crate::recorded::{Golden, assert_best_tokens, bits, differences, logits, open, options};

const MODELS: [&str; 2] = ["ternary-yarn", "binary-tied"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/weight_only").join(name)
}

fn load(file: &ModelFile, compute: Compute, head: HeadMode) -> Result<Model, LoadError> {
    load_with(file, compute, head, None)
}

fn load_with(
    file: &ModelFile,
    compute: Compute,
    head: HeadMode,
    activations: Option<ActivationCodes>,
) -> Result<Model, LoadError> {
    let options = ModelOptions { head, sparse: SparseMode::Off, ..options(activations) };
    Model::load(file, compute, options, &mut |_| {})
}

#[test]
fn logits_are_those_of_transformers_up_to_the_codes_of_activations() {
    // By default sixteen bits, because these models are trained with activations in floats.
    let cases = [
        (None, 1e-4, 1e-3),
        (Some(ActivationCodes::Int8), 0.02, 0.2),
        (Some(ActivationCodes::Int8Group), 0.02, 0.2),
        (Some(ActivationCodes::F32), 1e-5, 1e-4),
    ];
    for (name, (activations, max_median, max)) in
        MODELS.into_iter().flat_map(|name| cases.map(|case| (name, case)))
    {
        let golden = Golden::read(&data(name));
        let file = open(&data(&format!("{name}.gguf")));
        let mut model = load_with(&file, Compute::new(2), HeadMode::Auto, activations).unwrap();
        let found = logits(&mut model, &golden.ids, &golden.scored, 512);
        let (median, largest) = differences(&found, &golden.logits);
        println!("{name}, {activations:?}: median {median}, largest {largest}");
        assert!(
            median < max_median && largest < max,
            "{name}, {activations:?}: median {median}, largest {largest}"
        );
        let codes = activations.unwrap_or(ActivationCodes::Int16);
        assert_best_tokens(name, &found, &golden.logits, codes);
    }
}

/// Writes a model as floats in the names of `transformers`, beside the configuration that it wrote. `change` may
/// change the values of norms.
fn unpack(file: &ModelFile, config: &Path, directory: &Path, change: fn(&mut [f32])) {
    let mut writer = SafetensorsWriter::new();
    let mut bytes = Vec::new();
    for tensor in file.tensors() {
        let shape = match tensor.name.is_norm() {
            true => vec![tensor.cols],
            false => vec![tensor.rows, tensor.cols],
        };
        let mut values = vec![0.0; tensor.rows * tensor.cols];
        let rows = 0..tensor.rows;
        let float = if tensor.encoding.is_ternary() {
            let data = file.read(tensor).unwrap();
            data.weights(&data.scales().unwrap(), rows, &mut values).unwrap();
            FloatEncoding::F16
        } else {
            file.floats(tensor, rows, &mut values).unwrap();
            change(&mut values);
            FloatEncoding::F32
        };
        writer.declare(&tensor.name.hugging_face(), &shape, float).unwrap();
        bytes.extend(encode_floats(float, &values).unwrap());
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    body.append(&bytes).unwrap();
    std::fs::write(directory.join("model.safetensors"), body.finish().unwrap()).unwrap();
    std::fs::copy(config, directory.join("config.json")).unwrap();
}

#[test]
fn directories_of_unpacked_floats_give_the_same_bits_and_convert() {
    for name in MODELS {
        let Golden { ids, scored, .. } = Golden::read(&data(name));
        let file = open(&data(&format!("{name}.gguf")));
        let run = |file: &ModelFile| {
            let mut model = load(file, Compute::new(2), HeadMode::Auto).unwrap();
            bits(&logits(&mut model, &ids, &scored, 512))
        };
        let expected = run(&file);
        let folder = tempfile::tempdir().unwrap();
        unpack(&file, &data(&format!("{name}.config.json")), folder.path(), |_| {});
        let directory = open(folder.path());
        let embedding = directory.tensor(TensorName::Embedding).unwrap().encoding;
        assert_eq!(embedding, Encoding::TernaryFloats(FloatEncoding::F16), "found by looking");
        assert_eq!(run(&directory), expected, "{name}");
        for container in [Container::Wf, Container::Gguf(TernaryEncoding::PTQ1_0)] {
            let copy = folder.path().join("copy");
            let head = Target::default_head(&directory, container).unwrap();
            Target::new(container, head).write(&directory, &copy).unwrap();
            assert_eq!(run(&open(&copy)), expected, "{name} in {container:?}");
        }
    }
}

/// In trained networks, some channels are many times larger than others. With one scale per token, these
/// leave few codes to the others; with a scale per group, only to those of their group; sixteen bits have enough.
#[test]
fn outliers_cost_groups_less_than_tokens_and_sixteen_bits_little() {
    let [name, _] = MODELS;
    let Golden { ids, scored, .. } = Golden::read(&data(name));
    let folder = tempfile::tempdir().unwrap();
    let file = open(&data(&format!("{name}.gguf")));
    let config = data(&format!("{name}.config.json"));
    unpack(&file, &config, folder.path(), |norm| norm[0] *= 40.0);
    let directory = open(folder.path());
    let run = |codes| {
        let model = load_with(&directory, Compute::new(2), HeadMode::Auto, Some(codes));
        logits(&mut model.unwrap(), &ids, &scored, 512)
    };
    let exact = run(ActivationCodes::F32);
    let median = |codes| {
        let (median, largest) = differences(&run(codes), &exact);
        println!("{name} with outliers, {codes}: median {median}, largest {largest}");
        median
    };
    let per_token = median(ActivationCodes::Int8);
    let per_group = median(ActivationCodes::Int8Group);
    let fine = median(ActivationCodes::Int16);
    assert!(per_group < 0.9 * per_token, "{per_group} per group, {per_token} per token");
    assert!(fine < 0.01 * per_group, "{fine} with sixteen bits, {per_group} per group");
}

#[test]
fn groups_of_activations_need_lines_that_end_with_them() {
    let file = open(&data("ternary-yarn.gguf"));
    let load = |layout| {
        let compute = Compute::new(1).with_layout(layout);
        load_with(&file, compute, HeadMode::Auto, Some(ActivationCodes::Int8Group))
    };
    assert!(load(Layout::QuadLines).is_ok());
    let error = load(Layout::FiveTrits).err().unwrap().to_string();
    assert!(error.contains("use layout quad-lines, or other activations"), "{error}");
}

#[test]
fn threads_chunks_and_instruction_sets_change_no_bit() {
    for (name, codes) in MODELS.into_iter().flat_map(|m| ActivationCodes::ALL.map(|c| (m, c))) {
        let Golden { ids, scored, .. } = Golden::read(&data(name));
        let file = open(&data(&format!("{name}.gguf")));
        let load = |compute, head| load_with(&file, compute, head, Some(codes)).unwrap();
        let mut model = load(Compute::new(1), HeadMode::Full);
        let expected = bits(&logits(&mut model, &ids, &scored, 512));
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 7), (3, 64), (2, 512)] {
                let compute = Compute::chosen(Some(isa), threads, None).unwrap();
                let found = bits(&logits(&mut load(compute, HeadMode::Auto), &ids, &scored, chunk));
                assert_eq!(found, expected, "{name}: {isa} on {threads}, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn every_encoding_with_groups_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for name in MODELS {
        let Golden { ids, scored, .. } = Golden::read(&data(name));
        let source = open(&data(&format!("{name}.gguf")));
        let run = |file: &ModelFile| {
            let mut model = load(file, Compute::new(2), HeadMode::Auto).unwrap();
            bits(&logits(&mut model, &ids, &scored, 512))
        };
        let expected = run(&source);
        let mut containers = vec![Container::Wf];
        use TernaryEncoding as T;
        containers.extend([T::Q2_0, T::Q2_0_G128, T::PQ2_0, T::PTQ1_0].map(Container::Gguf));
        containers.extend((name == "binary-tied").then_some(Container::Gguf(T::Q1_0)));
        for container in containers {
            let path = folder.path().join("copy");
            let head = Target::default_head(&source, container).unwrap();
            assert_eq!(head, TableEncoding::Source, "as in the source");
            Target::new(container, head).write(&source, &path).unwrap();
            let copy = open(&path);
            let embedding = copy.tensor(TensorName::Embedding).unwrap().encoding;
            assert!(matches!(embedding, Encoding::Ternary(_)), "{name}: {embedding}");
            assert_eq!(run(&copy), expected, "{name} in {container:?}");
        }
    }
}

#[test]
fn a_ternary_head_is_kept_as_trits_and_scans_are_rejected() {
    let file = open(&data("ternary-yarn.gguf"));
    let model = load(&file, Compute::new(1), HeadMode::Auto).unwrap();
    // 272 padded rows of 256 trits in two bits, and two scales a row, which are f16 in the file.
    assert_eq!(model.weights().head().size_bytes(), 272 * 256 / 4 + 272 * 2 * 2);
    assert_eq!(model.head_bytes_per_pick(), model.weights().head().size_bytes());
    for mode in [HeadMode::Scan, HeadMode::Scan4, HeadMode::Int8, HeadMode::Check] {
        let error = load(&file, Compute::new(1), mode).err().unwrap().to_string();
        let expected = format!("head mode {mode} requires an output head of floats");
        assert!(error.contains(&expected), "{error}");
    }
}
