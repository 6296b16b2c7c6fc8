//! A small model whose every number is known, for writing and reading back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use wf_core::{Activation, Attention, Dense, Layer, Network, Norm, Rope, RotaryPairs};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, MetadataValue, ModelFile, ModelInfo, OpenOptions,
    Rounding, Scales, TensorName, TernaryEncoding,
};

/// A model in plain numbers.
pub(crate) struct Sample {
    pub(crate) network: Network,
    pub(crate) info: ModelInfo,
    pub(crate) trits: HashMap<TensorName, Vec<i8>>,
    /// One scale a projection, exact in f16 and bf16, and no two the same.
    pub(crate) scales: HashMap<TensorName, f32>,
    /// Values exact in f16 and bf16.
    pub(crate) floats: HashMap<TensorName, Vec<f32>>,
}

/// Pseudo-random numbers, so that any permutation is detected.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

impl Sample {
    pub(crate) fn new() -> Self {
        let sub_norm = Some(Norm::default());
        let attention = Attention {
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            rope: Some(Rope::default()),
            sub_norm,
            ..Attention::default()
        };
        let activation = Activation::Relu2;
        let dense = Dense { ffn_len: 512, activation, sub_norm, ..Dense::default() };
        let layers = vec![Layer::new(attention, dense); 2];
        let network = Network { vocab_len: 300, hidden_len: 256, layers, ..Network::default() };
        let info = ModelInfo {
            architecture: "bitnet-b1.58".to_owned(),
            name: Some("sample".to_owned()),
            context_len: 128,
            ..ModelInfo::default()
        };
        Self::of(network, info)
    }

    /// The same network under another architecture.
    pub(crate) fn named(architecture: &str) -> Self {
        let mut sample = Self::new();
        sample.info.architecture = architecture.to_owned();
        sample
    }

    pub(crate) fn of(network: Network, info: ModelInfo) -> Self {
        let mut random = Random(7);
        let (mut trits, mut scales, mut floats) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (at, name) in TensorName::all(&network).enumerate() {
            let (rows, cols) = name.shape(&network).unwrap();
            if name.is_linear() {
                let values = (0..rows * cols).map(|_| (random.next() % 3) as i8 - 1).collect();
                trits.insert(name, values);
                scales.insert(name, (at + 1) as f32 / 256.0);
            } else {
                let value = |_| (random.next() % 255) as f32 / 128.0 - 1.0;
                floats.insert(name, (0..rows * cols).map(value).collect());
            }
        }
        Self { network, info, trits, scales, floats }
    }

    pub(crate) fn metadata(&self, writer: &mut GgufWriter, arch: &str) {
        let text = |text: &str| MetadataValue::String(text.to_owned());
        writer.set("general.architecture", text(arch));
        writer.set("general.name", text("sample"));
        let attention = self.network.layers[0].attention().unwrap();
        let sizes = [
            ("context_length", self.info.context_len),
            ("embedding_length", self.network.hidden_len),
            ("block_count", self.network.layers.len()),
            ("feed_forward_length", self.network.max_ffn_len()),
            ("attention.head_count", attention.heads),
            ("attention.head_count_kv", attention.kv_heads),
        ];
        for (key, size) in sizes {
            writer.set(&format!("{arch}.{key}"), MetadataValue::U32(size as u32));
        }
        writer.set(&format!("{arch}.rope.freq_base"), MetadataValue::F32(10_000.0));
        let eps = format!("{arch}.attention.layer_norm_rms_epsilon");
        writer.set(&eps, MetadataValue::F32(1e-5));
    }

    /// A GGUF file of this model; `more` may set more keys.
    pub(crate) fn gguf(
        &self,
        encoding: Encoding,
        head: FloatEncoding,
        more: impl FnOnce(&mut GgufWriter),
    ) -> Vec<u8> {
        let mut writer = GgufWriter::new();
        self.metadata(&mut writer, &self.info.architecture);
        more(&mut writer);
        let kind = |name: TensorName| match name {
            name if name.is_linear() => encoding,
            name if name.is_norm() => Encoding::Float(FloatEncoding::F32),
            _ => Encoding::Float(head),
        };
        for name in TensorName::all(&self.network) {
            let (rows, cols) = name.shape(&self.network).unwrap();
            let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
            writer.declare(&name.gguf(), &shape, kind(name)).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        for name in TensorName::all(&self.network) {
            body.append(&self.tensor_bytes(name, kind(name))).unwrap();
        }
        body.finish().unwrap()
    }

    pub(crate) fn tensor_bytes(&self, name: TensorName, encoding: Encoding) -> Vec<u8> {
        let (rows, cols) = name.shape(&self.network).unwrap();
        match (encoding, self.trits.get(&name)) {
            (Encoding::Ternary(encoding), Some(trits)) => {
                let scales = Scales::Tensor(self.scales[&name]);
                encode_trits(encoding, trits, rows, cols, &scales, Rounding::Exact).unwrap()
            }
            (encoding, Some(trits)) => {
                let scale = self.scales[&name];
                let weights: Vec<f32> = trits.iter().map(|&trit| f32::from(trit) * scale).collect();
                encode_floats(encoding.float().unwrap(), &weights).unwrap()
            }
            (encoding, None) => {
                encode_floats(encoding.float().unwrap(), &self.floats[&name]).unwrap()
            }
        }
    }

    /// Checks that a model has exactly these numbers.
    pub(crate) fn assert_same(&self, model: &ModelFile) {
        let names: Vec<TensorName> = TensorName::all(&self.network).collect();
        assert_eq!(model.tensors().len(), names.len());
        for name in names {
            let info = model.tensor(name).unwrap();
            assert_eq!(Some((info.rows, info.cols)), name.shape(&self.network));
            if name.is_linear() {
                assert!(read_trits(model, name) == self.trits[&name], "{name}: trits differ");
                let scale = Scales::Tensor(self.scales[&name]);
                assert_eq!(model.scales(info).unwrap(), scale, "{name}");
            } else {
                let mut values = vec![0.0; info.rows * info.cols];
                model.floats(info, 0..info.rows, &mut values).unwrap();
                assert!(values == self.floats[&name], "{name}: values differ");
            }
        }
    }
}

/// Activation of all layers.
pub(crate) fn activation(model: &ModelFile) -> Activation {
    model.network().uniform_layer().unwrap().ffn.dense().unwrap().activation
}

/// Rotary pairs of all layers.
pub(crate) fn rotary_pairs(model: &ModelFile) -> RotaryPairs {
    model.network().uniform_layer().unwrap().attention().unwrap().rope.unwrap().pairs
}

/// All trits of a projection, asked for in pieces of uneven size.
pub(crate) fn read_trits(model: &ModelFile, name: TensorName) -> Vec<i8> {
    let info = model.tensor(name).unwrap();
    let mut trits = Vec::new();
    let mut first = 0;
    for len in [1, 3, 50, usize::MAX] {
        let end = info.rows.min(first + len.min(info.rows));
        let mut piece = vec![9; (end - first) * info.cols];
        model.trits(info, first..end, &mut piece).unwrap();
        trits.extend(piece);
        first = end;
    }
    assert_eq!(first, info.rows);
    trits
}

/// A directory outside the repository with material for tests; `None`, and a printed line, without it.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}

pub(crate) fn open(path: &Path) -> ModelFile {
    ModelFile::open(path, &OpenOptions::default()).unwrap()
}

/// Returns the error message for a file.
pub(crate) fn open_error(path: &Path) -> String {
    match ModelFile::open(path, &OpenOptions::default()) {
        Ok(_) => panic!("{} was not rejected", path.display()),
        Err(error) => error.to_string(),
    }
}

pub(crate) const I2_S: Encoding = Encoding::Ternary(TernaryEncoding::I2_S);
