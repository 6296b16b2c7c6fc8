//! A model file of the same shape for llama.cpp.
//!
//! Its speed does not depend on the weights either, so there is one random matrix per shape, which
//! every layer repeats, and the file is written in seconds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use wf_core::{Attention, Network};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, MetadataValue, ModelInfo, Rounding, Scales, TensorName,
    TernaryEncoding,
};

use crate::random::Random;

/// Encoding of trits: the one that llama.cpp decodes fastest.
const TRITS: TernaryEncoding = TernaryEncoding::TQ2_0;
/// Encoding of embedding and head.
const TABLE: FloatEncoding = FloatEncoding::Q6_K;

/// Description of both encodings.
pub(super) const ENCODING: &str = "TQ2_0 with a Q6_K head";

/// Number of values per group in both encodings.
const GROUP: usize = 256;

/// A file that is removed when dropped.
pub(super) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Writes a model with this network into `directory`.
    pub(super) fn write(network: &Network, info: &ModelInfo, directory: &Path) -> Result<Self> {
        let name = format!("wf-bench-{}.gguf", std::process::id());
        let file = Self(directory.join(name));
        write(network, info, &file.0).with_context(|| format!("writing {}", file.0.display()))?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // There is no one to report an error to.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(network: &Network, info: &ModelInfo, path: &Path) -> Result<()> {
    ensure!(
        network.max_experts(|experts| experts.experts) == 0,
        "the file for llama.cpp has no experts: compare a dense shape"
    );
    ensure!(
        !network.is_recurrent(),
        "the file for llama.cpp has no recurrent layers: compare another shape"
    );
    let query = network.max_attention(Attention::query_len);
    for cols in [network.hidden_len, network.max_ffn_len(), query] {
        ensure!(
            cols % GROUP == 0,
            "rows of {cols} trits: {ENCODING} requires a multiple of {GROUP}"
        );
    }
    // Its `bitnet` has SiLU instead of squared ReLU, which takes the same time.
    let sub_norms = network.attentions().any(|attention| attention.sub_norm.is_some());
    let architecture = if sub_norms { "bitnet" } else { "llama" };
    let mut writer = GgufWriter::new();
    writer.set_network(network, info, architecture, None);
    writer.set("tokenizer.ggml.model", MetadataValue::String("no_vocab".to_owned()));
    for name in TensorName::all(network) {
        let (rows, cols) = name.shape(network).expect("a tensor of the network");
        let shape: &[usize] = if name.is_norm() { &[cols] } else { &[rows, cols] };
        writer.declare(&name.gguf(), shape, encoding(name))?;
    }
    let mut body = writer.begin(BufWriter::new(File::create(path)?))?;
    let mut known = HashMap::new();
    for name in TensorName::all(network) {
        let (rows, cols) = name.shape(network).expect("a tensor of the network");
        let (bytes, times) = match encoding(name) {
            Encoding::Float(float) if float == TABLE => (random_row(cols)?, rows),
            Encoding::Float(_) => (encode_floats(FloatEncoding::F32, &vec![1.0; cols])?, 1),
            _ => {
                if let Entry::Vacant(entry) = known.entry((rows, cols)) {
                    entry.insert(random_trits(rows, cols)?);
                }
                (Vec::clone(&known[&(rows, cols)]), 1)
            }
        };
        for _ in 0..times {
            body.append(&bytes)?;
        }
    }
    body.finish()?;
    Ok(())
}

fn encoding(name: TensorName) -> Encoding {
    match name {
        name if name.is_linear() => Encoding::Ternary(TRITS),
        name if name.is_norm() => Encoding::Float(FloatEncoding::F32),
        _ => Encoding::Float(TABLE),
    }
}

/// Returns a random matrix. Its scale is exact in f16 and keeps activations at a constant size.
fn random_trits(rows: usize, cols: usize) -> Result<Vec<u8>> {
    let mut trits = vec![0; rows * cols];
    Random::new(rows as u64, cols as u64).fill_trits(&mut trits);
    let scale = Scales::Tensor(0.03125);
    Ok(encode_trits(TRITS, &trits, rows, cols, &scale, Rounding::Exact)?)
}

/// Returns a random row of a table.
fn random_row(cols: usize) -> Result<Vec<u8>> {
    Ok(encode_floats(TABLE, &Random::new(0, 2).floats(cols))?)
}

#[cfg(test)]
mod tests {
    use wf_formats::{ModelFile, OpenOptions};

    use super::*;
    use crate::bench::shapes::Shape;

    fn small(shape: Shape) -> Network {
        let mut network = Network { vocab_len: 300, hidden_len: 512, ..shape.network() };
        network.layers.truncate(2);
        network.update_layers(|attention, dense| {
            (attention.heads, attention.kv_heads, attention.head_dim) = (4, 2, 128);
            dense.ffn_len = 768;
        });
        network
    }

    #[test]
    fn the_file_has_the_shape_and_the_encodings() {
        let folder = tempfile::tempdir().unwrap();
        for shape in [Shape::Bitnet2b, Shape::Llama3Of8b] {
            let network = small(shape);
            let file = TemporaryFile::write(&network, &shape.info(), folder.path()).unwrap();
            let model = ModelFile::open(file.path(), &OpenOptions::default()).unwrap();
            let read = model.network();
            assert_eq!((read.layers.len(), read.hidden_len), (2, 512));
            let (found, expected) =
                (read.attentions().next().unwrap(), network.attentions().next().unwrap());
            assert_eq!((found.kv_heads, found.sub_norm), (2, expected.sub_norm));
            assert_eq!(read.head, network.head);
            let encodings =
                |wanted| model.tensors().iter().filter(|t| t.encoding == wanted).count();
            assert_eq!(encodings(Encoding::Ternary(TRITS)), 2 * 7);
            assert_eq!(encodings(Encoding::Float(TABLE)), if network.head.tied { 1 } else { 2 });
            drop((model, file));
            assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the file is removed");
        }
    }

    #[test]
    fn shapes_with_partial_groups_are_rejected() {
        let mut network = small(Shape::Bitnet2b);
        network.update_layers(|_, dense| dense.ffn_len = 700);
        let info = Shape::Bitnet2b.info();
        let folder = tempfile::tempdir().unwrap();
        let error = TemporaryFile::write(&network, &info, folder.path()).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("rows of 700 trits"), "{error:#}");
    }
}
