//! Recorded hybrids of recurrent and attention layers.

use std::path::{Path, PathBuf};

use wf_core::ActivationCodes;
use wf_formats::ModelFile;
use wf_model::{Compute, Model};

use crate::recorded::{Golden, differences, open, options};

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/qwen35").join(name)
}

pub(crate) fn gguf(name: &str) -> ModelFile {
    open(&data(name).with_extension("gguf"))
}

pub(crate) fn load(
    file: &ModelFile,
    compute: Compute,
    activations: Option<ActivationCodes>,
) -> Model {
    Model::load(file, compute, options(activations), &mut |_| {}).unwrap()
}

/// Checks that logits differ from recorded ones by no more than the codes of activations explain.
#[track_caller]
pub(crate) fn assert_close(
    what: &str,
    found: &[Vec<f32>],
    golden: &Golden,
    codes: ActivationCodes,
) {
    let (max_median, max) = match codes {
        ActivationCodes::F32 => (1e-5, 1e-4),
        ActivationCodes::Int16 => (2e-4, 3e-3),
        ActivationCodes::Int8 | ActivationCodes::Int8Group => (0.04, 0.35),
    };
    let (median, largest) = differences(found, &golden.logits);
    let what = format!("{what}, {codes}: median {median}, largest {largest}");
    assert!(median < max_median && largest < max, "{what}");
}
