//! Recorded models as directories of floats, under the names that `transformers` saves.

use std::collections::BTreeMap;
use std::path::Path;

use wf_core::RotaryPairs;
use wf_formats::encoding::encode_floats;
use wf_formats::{FloatEncoding, LayerTensor, ModelFile, SafetensorsWriter, TensorName};

/// The spelling of a family's checkpoints.
pub(crate) struct Checkpoint {
    pub(crate) name: fn(TensorName) -> String,
    /// Number that the network adds to the weights of norms.
    pub(crate) norm_addend: f32,
    /// Type of all tensors, which represents their values exactly.
    pub(crate) float: FloatEncoding,
}

/// Checkpoints of most families.
pub(crate) const USUAL: Checkpoint =
    Checkpoint { name: TensorName::hugging_face, norm_addend: 0.0, float: FloatEncoding::F32 };

/// Writes the tensors of the model recorded at `path` as floats under the names, and with the configuration,
/// that `transformers` saved.
pub(crate) fn float_directory(
    path: &Path,
    file: &ModelFile,
    folder: &Path,
    checkpoint: &Checkpoint,
) {
    let names = std::fs::read(path.with_extension("tensors.json")).unwrap();
    let mut saved: BTreeMap<String, Vec<usize>> = serde_json::from_slice(&names).unwrap();
    let mut writer = SafetensorsWriter::new();
    let all: Vec<TensorName> = TensorName::all(file.network()).collect();
    for tensor in &all {
        let source = (checkpoint.name)(*tensor);
        let shape = saved.remove(&source).unwrap_or_else(|| panic!("{source} is not saved"));
        writer.declare(&source, &shape, checkpoint.float).unwrap();
    }
    assert!(saved.is_empty(), "other tensors are saved: {saved:?}");
    let weights = std::fs::File::create(folder.join("model.safetensors")).unwrap();
    let mut body = writer.begin(weights).unwrap();
    for tensor in all {
        let info = file.tensor(tensor).unwrap();
        let data = file.read(info).unwrap();
        let mut values = vec![0.0; info.rows * info.cols];
        match info.encoding.is_ternary() {
            true => data.weights(&data.scales().unwrap(), 0..info.rows, &mut values).unwrap(),
            false => data.floats(0..info.rows, &mut values).unwrap(),
        }
        if tensor.is_norm() {
            values.iter_mut().for_each(|value| *value -= checkpoint.norm_addend);
        }
        let values = in_halves(file, tensor, values);
        body.append(&encode_floats(checkpoint.float, &values).unwrap()).unwrap();
    }
    body.finish().unwrap();
    std::fs::copy(path.with_extension("config.json"), folder.join("config.json")).unwrap();
}

/// Returns the rows of a query or key projection in the order of checkpoints.
fn in_halves(file: &ModelFile, tensor: TensorName, values: Vec<f32>) -> Vec<f32> {
    let TensorName::Layer(layer, LayerTensor::Query | LayerTensor::Key) = tensor else {
        return values;
    };
    let attention = file.network().layers[layer].attention().unwrap();
    if attention.rope.is_none_or(|rope| rope.pairs == RotaryPairs::Halves) {
        return values;
    }
    let cols = file.network().hidden_len;
    let from = |row| RotaryPairs::Halves.row_before(row, attention.head_dim);
    (0..values.len() / cols).flat_map(|row| values[from(row) * cols..][..cols].to_vec()).collect()
}
