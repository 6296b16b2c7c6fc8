//! A small model whose every number is known, for writing and reading back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Activation, Encoding, ExtraNorms, FloatEncoding, GgufWriter, MetadataValue, ModelConfig,
    ModelFile, OpenOptions, RotaryPairs, Rounding, TensorName, TernaryEncoding, TritScales,
};

/// A model in plain numbers.
pub(crate) struct Sample {
    pub(crate) config: ModelConfig,
    pub(crate) trits: HashMap<TensorName, Vec<i8>>,
    /// One scale a projection, exact in f16 and bf16, and no two the same.
    pub(crate) scales: HashMap<TensorName, f32>,
    /// Values exact in f16 and bf16.
    pub(crate) floats: HashMap<TensorName, Vec<f32>>,
}

/// Numbers that differ from place to place, so that any permutation shows.
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
        let config = ModelConfig {
            architecture: "bitnet-b1.58".to_owned(),
            name: Some("sample".to_owned()),
            vocab_len: 300,
            hidden_len: 256,
            ffn_len: 512,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            context_len: 128,
            rope_theta: 10_000.0,
            rotary_pairs: RotaryPairs::Halves,
            norm_eps: 1e-5,
            activation: Activation::Relu2,
            sub_norms: true,
            tied_head: true,
            bos: None,
            eos: Vec::new(),
            block_diffusion: None,
            extra_norms: ExtraNorms::default(),
            scaled_embedding: false,
            pooling: None,
        };
        Self::of(config)
    }

    pub(crate) fn of(config: ModelConfig) -> Self {
        let mut random = Random(7);
        let (mut trits, mut scales, mut floats) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (at, name) in config.tensor_names().enumerate() {
            let (rows, cols) = config.shape(name);
            if name.is_linear() {
                let values = (0..rows * cols).map(|_| (random.next() % 3) as i8 - 1).collect();
                trits.insert(name, values);
                scales.insert(name, (at + 1) as f32 / 256.0);
            } else {
                let value = |_| (random.next() % 255) as f32 / 128.0 - 1.0;
                floats.insert(name, (0..rows * cols).map(value).collect());
            }
        }
        Self { config, trits, scales, floats }
    }

    pub(crate) fn metadata(&self, writer: &mut GgufWriter, arch: &str) {
        let text = |text: &str| MetadataValue::String(text.to_owned());
        writer.set("general.architecture", text(arch));
        writer.set("general.name", text("sample"));
        let sizes = [
            ("context_length", self.config.context_len),
            ("embedding_length", self.config.hidden_len),
            ("block_count", self.config.layers),
            ("feed_forward_length", self.config.ffn_len),
            ("attention.head_count", self.config.heads),
            ("attention.head_count_kv", self.config.kv_heads),
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
        self.metadata(&mut writer, &self.config.architecture);
        more(&mut writer);
        let kind = |name: TensorName| match name {
            name if name.is_linear() => encoding,
            name if name.is_norm() => Encoding::Float(FloatEncoding::F32),
            _ => Encoding::Float(head),
        };
        for name in self.config.tensor_names() {
            let (rows, cols) = self.config.shape(name);
            let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
            writer.declare(&name.gguf(), &shape, kind(name)).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        for name in self.config.tensor_names() {
            body.append(&self.tensor_bytes(name, kind(name))).unwrap();
        }
        body.finish().unwrap()
    }

    pub(crate) fn tensor_bytes(&self, name: TensorName, encoding: Encoding) -> Vec<u8> {
        let (rows, cols) = self.config.shape(name);
        match (encoding, self.trits.get(&name)) {
            (Encoding::Ternary(encoding), Some(trits)) => {
                let scales = TritScales::Tensor(self.scales[&name]);
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
        let names: Vec<TensorName> = self.config.tensor_names().collect();
        assert_eq!(model.tensors().len(), names.len());
        for name in names {
            let info = model.tensor(name).unwrap();
            assert_eq!((info.rows, info.cols), self.config.shape(name));
            if name.is_linear() {
                assert!(read_trits(model, name) == self.trits[&name], "{name}: trits differ");
                let scale = TritScales::Tensor(self.scales[&name]);
                assert_eq!(model.scales(info).unwrap(), scale, "{name}");
            } else {
                let mut values = vec![0.0; info.rows * info.cols];
                model.floats(info, 0..info.rows, &mut values).unwrap();
                assert!(values == self.floats[&name], "{name}: values differ");
            }
        }
    }
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

/// The message a file is refused with.
pub(crate) fn refusal(path: &Path) -> String {
    match ModelFile::open(path, &OpenOptions::default()) {
        Ok(_) => panic!("{} was not refused", path.display()),
        Err(error) => error.to_string(),
    }
}

pub(crate) const I2_S: Encoding =
    Encoding::Ternary(TernaryEncoding::I2s(wf_formats::I2sOrder::Groups128));
