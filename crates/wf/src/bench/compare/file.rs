//! A model file of the same shape that llama.cpp can read.
//!
//! What the weights are makes no difference to its speed either. So there is one random matrix for
//! each shape, which every layer repeats, and the file is there in seconds.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, MetadataValue, ModelConfig, Rounding, TensorName,
    TernaryEncoding, TritScales,
};

use crate::bench::random::Random;

/// What trits and tables are written in: of what the other program knows, what it decodes fastest.
const TRITS: TernaryEncoding = TernaryEncoding::Tq2_0;
const TABLE: FloatEncoding = FloatEncoding::Q6K;

/// The two, for people.
pub(super) const ENCODING: &str = "TQ2_0 with a Q6_K head";

/// Both encodings come in groups of as many numbers.
const GROUP: usize = 256;

/// A file that is gone when this is.
pub(super) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Writes a model of the shape of `config` into `folder`.
    pub(super) fn write(config: &ModelConfig, folder: &Path) -> Result<Self> {
        let name = format!("wf-bench-{}.gguf", std::process::id());
        let file = Self(folder.join(name));
        write(config, &file.0).with_context(|| format!("writing {}", file.0.display()))?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // Nobody is left to be told if it cannot be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(config: &ModelConfig, path: &Path) -> Result<()> {
    let query = config.heads * config.head_dim;
    for cols in [config.hidden_len, config.ffn_len, query] {
        ensure!(cols % GROUP == 0, "rows of {cols} trits, {ENCODING} has whole groups of {GROUP}");
    }
    // Its `bitnet` has SiLU for squared ReLU, which is the same work.
    let architecture = if config.sub_norms { "bitnet" } else { "llama" };
    let mut writer = GgufWriter::new();
    writer.set_network(config, architecture, None);
    writer.set("tokenizer.ggml.model", MetadataValue::String("no_vocab".to_owned()));
    for name in config.tensor_names() {
        let (rows, cols) = config.shape(name);
        let shape: &[usize] = if name.is_norm() { &[cols] } else { &[rows, cols] };
        writer.declare(&name.gguf(), shape, encoding(name))?;
    }
    let mut body = writer.begin(BufWriter::new(File::create(path)?))?;
    let mut known = HashMap::new();
    for name in config.tensor_names() {
        let (rows, cols) = config.shape(name);
        let (bytes, times) = match encoding(name) {
            Encoding::Float(TABLE) => (random_row(cols)?, rows),
            Encoding::Float(_) => (encode_floats(FloatEncoding::F32, &vec![1.0; cols])?, 1),
            _ => match known.get(&(rows, cols)) {
                Some(bytes) => (Vec::clone(bytes), 1),
                None => {
                    let bytes = random_trits(rows, cols)?;
                    known.insert((rows, cols), bytes.clone());
                    (bytes, 1)
                }
            },
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

/// A matrix. Its scale keeps the size of what flows through, and f16 holds it.
fn random_trits(rows: usize, cols: usize) -> Result<Vec<u8>> {
    let mut trits = vec![0; rows * cols];
    Random::new(rows as u64, cols as u64).fill_trits(&mut trits);
    let scale = TritScales::Tensor(0.03125);
    Ok(encode_trits(TRITS, &trits, rows, cols, &scale, Rounding::Exact)?)
}

/// One row of a table.
fn random_row(cols: usize) -> Result<Vec<u8>> {
    let mut random = Random::new(0, 2);
    let values: Vec<f32> = (0..cols).map(|_| random.centred()).collect();
    Ok(encode_floats(TABLE, &values)?)
}

#[cfg(test)]
mod tests {
    use wf_formats::{ModelFile, OpenOptions};

    use super::*;
    use crate::bench::shapes::Shape;

    fn small(shape: Shape) -> ModelConfig {
        let config = shape.config();
        ModelConfig {
            vocab_len: 300,
            hidden_len: 512,
            ffn_len: 768,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 128,
            ..config
        }
    }

    #[test]
    fn the_file_has_the_shape_and_the_encodings() {
        let folder = tempfile::tempdir().unwrap();
        for shape in [Shape::Bitnet2b, Shape::Llama3Of8b] {
            let config = small(shape);
            let file = TemporaryFile::write(&config, folder.path()).unwrap();
            let model = ModelFile::open(file.path(), &OpenOptions::default()).unwrap();
            let read = model.config();
            assert_eq!((read.layers, read.hidden_len, read.kv_heads), (2, 512, 2));
            assert_eq!((read.sub_norms, read.tied_head), (config.sub_norms, config.tied_head));
            let encodings =
                |wanted| model.tensors().iter().filter(|t| t.encoding == wanted).count();
            assert_eq!(encodings(Encoding::Ternary(TRITS)), 2 * 7);
            assert_eq!(encodings(Encoding::Float(TABLE)), if config.tied_head { 1 } else { 2 });
            drop((model, file));
            assert_eq!(folder.path().read_dir().unwrap().count(), 0, "it is gone");
        }
    }

    #[test]
    fn a_shape_without_whole_groups_is_refused() {
        let config = ModelConfig { ffn_len: 700, ..small(Shape::Bitnet2b) };
        let folder = tempfile::tempdir().unwrap();
        let error = TemporaryFile::write(&config, folder.path()).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("rows of 700 trits"), "{error:#}");
    }
}
