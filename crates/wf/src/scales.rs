//! Describes which weights of a model share a scale.

use std::collections::BTreeMap;

use wf_formats::{ModelFile, ScaleUnit, TensorInfo, TensorName, scale_unit};

use crate::output;

/// Describes the parts of ternary tensors that share a scale. Reading all scales takes a while, so unless
/// `read_all` is set, those of the first layer and the tables stand for all.
///
/// A unit is the largest that all scales of a tensor allow: a row of one group has one scale.
pub(crate) fn describe(file: &ModelFile, read_all: bool) -> Option<String> {
    let is_read = |tensor: &&TensorInfo| {
        let is_sample = match tensor.name {
            TensorName::Expert(layer, expert, _) => layer == 0 && expert == 0,
            name => name.layer().unwrap_or(0) == 0,
        };
        tensor.encoding.is_ternary() && (read_all || is_sample)
    };
    let mut units = BTreeMap::<String, usize>::new();
    for tensor in file.tensors().iter().filter(is_read) {
        let unit = match scale_unit(file, tensor) {
            ScaleUnit::Tensor => "one per tensor".to_owned(),
            ScaleUnit::Row => "one per row".to_owned(),
            ScaleUnit::Group(len) => format!("one per {len} columns"),
        };
        *units.entry(unit).or_default() += 1;
    }
    let mut units: Vec<(String, usize)> = units.into_iter().collect();
    units.sort_by_key(|(_, tensors)| std::cmp::Reverse(*tensors));
    let counted = |(unit, tensors): &(String, usize)| {
        format!("{unit} in {}", output::count(*tensors, "tensor"))
    };
    match units.as_slice() {
        [] => None,
        [(unit, _)] => Some(unit.clone()),
        several => {
            let list: Vec<String> = several.iter().map(counted).collect();
            let of = if read_all { "" } else { " of the first layer and the tables" };
            Some(format!("{}{of}", list.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wf_formats::OpenOptions;

    use super::*;

    #[test]
    fn every_unit_of_a_model_is_named() {
        let describe = |path: &str, read_all| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
            let file = ModelFile::open(&folder.join(path), &OpenOptions::default()).unwrap();
            describe(&file, read_all).unwrap()
        };
        // The down projection has rows of one group.
        let minicpm = "one per 128 columns in 19 tensors, one per row in 3 tensors";
        assert_eq!(describe("minicpm/tied.gguf", true), minicpm);
        let quick = "one per 128 columns in 7 tensors, one per row in 1 tensor of the first layer and the tables";
        assert_eq!(describe("minicpm/tied.gguf", false), quick);
        assert_eq!(describe("weight_only/ternary-yarn.gguf", false), "one per 128 columns");
        assert_eq!(describe("llama/llama3.gguf", true), "one per tensor");
    }
}
