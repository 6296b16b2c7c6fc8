//! Writes a model of any size with random trits, for benchmarks and memory tests.
//!
//! The default shape is that of BitNet-b1.58-2B-4T. The file is written while it is generated, so a
//! model of many gigabytes takes little memory. The same seed gives the same file.
//!
//! ```sh
//! cargo run --release -p wf-formats --example synthetic -- out.gguf [--hidden 2560] [--ffn 6912]
//!     [--layers 30] [--heads 20] [--kv-heads 5] [--vocab 128256] [--context 4096] [--seed 1]
//!     [--head f16|bf16|f32|q6_k|q8_0|q4_0] [--tokenizer tokenizer.json]
//! ```
//!
//! Without `--tokenizer`, the vocabulary is the 256 bytes, two control tokens, and padding.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use wf_core::{Activation, Attention, Dense, Layer, Network, Norm, Rope};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, ModelFile, ModelInfo, OpenOptions, Rounding, Scales,
    TensorName, TernaryEncoding, Vocabulary, vocabulary_from_tokenizer_json,
};

type Failure = Box<dyn Error>;

const ARCHITECTURE: &str = "bitnet-b1.58";
const TRITS: TernaryEncoding = TernaryEncoding::I2_S;
/// Rows of the embedding in memory at a time.
const CHUNK_ROWS: usize = 256;

#[expect(clippy::print_stdout, reason = "a command reports its result")]
fn main() -> Result<(), Failure> {
    let mut flags = Flags::parse(std::env::args().skip(1))?;
    let head = flags.head()?;
    let vocab_len = flags.number("vocab", 128_256)?;
    let vocabulary = flags.vocabulary(vocab_len)?;
    let heads = flags.number("heads", 20)?;
    let hidden_len = flags.number("hidden", 2560)?;
    let sub_norm = Some(Norm::default());
    let attention = Attention {
        heads,
        kv_heads: flags.number("kv-heads", 5)?,
        head_dim: hidden_len / heads.max(1),
        rope: Some(Rope { theta: 500_000.0, ..Rope::default() }),
        sub_norm,
        ..Attention::default()
    };
    let (ffn_len, activation) = (flags.number("ffn", 6912)?, Activation::Relu2);
    let dense = Dense { ffn_len, activation, sub_norm, ..Dense::default() };
    let layers = vec![Layer::new(attention, dense); flags.number("layers", 30)?];
    let network = Network { vocab_len, hidden_len, layers, ..Network::default() };
    let info = ModelInfo {
        architecture: ARCHITECTURE.to_owned(),
        name: Some("synthetic".to_owned()),
        context_len: flags.number("context", 4096)?,
        bos: vocabulary.bos,
        eos: vocabulary.eos.into_iter().collect(),
        ..ModelInfo::default()
    };
    let mut random = Random(flags.number("seed", 1)? as u64);
    let out = flags.finish()?;
    write(&network, &info, &vocabulary, head, &mut random, Path::new(&out))?;
    let model = ModelFile::open(Path::new(&out), &OpenOptions::default())?;
    println!("{out}: {} bytes, {} tensors", model.format().size_bytes(), model.tensors().len());
    Ok(())
}

fn write(
    network: &Network,
    info: &ModelInfo,
    vocabulary: &Vocabulary,
    head: FloatEncoding,
    random: &mut Random,
    out: &Path,
) -> Result<(), Failure> {
    let mut writer = GgufWriter::new();
    writer.set_network(network, info, ARCHITECTURE, None);
    writer.set_vocabulary(vocabulary);
    for name in TensorName::all(network) {
        let (rows, cols) = name.shape(network).expect("a tensor of the network");
        let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
        let encoding = match name.is_linear() {
            true => Encoding::Ternary(TRITS),
            false => Encoding::Float(if name.is_norm() { FloatEncoding::F32 } else { head }),
        };
        writer.declare(&name.gguf(), &shape, encoding)?;
    }
    let mut body = writer.begin(BufWriter::with_capacity(1 << 20, File::create(out)?))?;
    for name in TensorName::all(network) {
        let (rows, cols) = name.shape(network).expect("a tensor of the network");
        if name.is_linear() {
            let trits: Vec<i8> = (0..rows * cols).map(|_| random.trit()).collect();
            // Keeps the size of activations the same from layer to layer.
            let scale = Scales::Tensor(1.2 / (cols as f32).sqrt());
            body.append(&encode_trits(TRITS, &trits, rows, cols, &scale, Rounding::Exact)?)?;
        } else if name.is_norm() {
            body.append(&encode_floats(FloatEncoding::F32, &vec![1.0; cols])?)?;
        } else {
            for first in (0..rows).step_by(CHUNK_ROWS) {
                let count = CHUNK_ROWS.min(rows - first) * cols;
                let values: Vec<f32> = (0..count).map(|_| random.centred()).collect();
                body.append(&encode_floats(head, &values)?)?;
            }
        }
    }
    body.finish()?;
    Ok(())
}

/// The bytes as byte-level BPE writes them, a begin and an end, and filling.
fn byte_vocabulary(vocab_len: usize) -> Result<Vocabulary, Failure> {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    // Bytes that do not print stand for themselves 256 places further on, in order.
    let shifted = (0..256u32).filter(|byte| !printable(byte)).zip(256..);
    let shifted: HashMap<u32, u32> = shifted.collect();
    let character = |byte: u32| char::from_u32(*shifted.get(&byte).unwrap_or(&byte));
    let mut tokens: Vec<String> = (0..256u32).filter_map(character).map(String::from).collect();
    let mut token_types = vec![1; tokens.len()];
    tokens.extend(["<|begin_of_text|>".to_owned(), "<|eot_id|>".to_owned()]);
    token_types.extend([3, 3]);
    if vocab_len < tokens.len() {
        return Err(format!("--vocab must be at least {}", tokens.len()).into());
    }
    tokens.extend((tokens.len()..vocab_len).map(|id| format!("[PAD{id}]")));
    token_types.resize(vocab_len, 5);
    Ok(Vocabulary {
        model: "gpt2".to_owned(),
        pre: Some("llama-bpe".to_owned()),
        tokens,
        token_types,
        bos: Some(256),
        eos: Some(257),
        eot: Some(257),
        ..Vocabulary::default()
    })
}

/// `--name value` pairs and one path.
struct Flags {
    values: HashMap<String, String>,
    path: Option<String>,
}

impl Flags {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut flags = Self { values: HashMap::new(), path: None };
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix("--") {
                Some(name) => {
                    let value = arguments.next().ok_or(format!("--{name} needs a value"))?;
                    flags.values.insert(name.to_owned(), value);
                }
                None => flags.path = Some(argument),
            }
        }
        Ok(flags)
    }

    fn number(&mut self, name: &str, usual: usize) -> Result<usize, Failure> {
        Ok(self.values.remove(name).map_or(Ok(usual), |value| value.parse())?)
    }

    fn head(&mut self) -> Result<FloatEncoding, Failure> {
        Ok(self.values.remove("head").map_or(Ok(FloatEncoding::F16), |name| name.parse())?)
    }

    fn vocabulary(&mut self, vocab_len: usize) -> Result<Vocabulary, Failure> {
        let Some(path) = self.values.remove("tokenizer") else {
            return byte_vocabulary(vocab_len);
        };
        let json = std::fs::read(&path)?;
        let mut vocabulary = vocabulary_from_tokenizer_json(&json, vocab_len)?;
        vocabulary.bos = vocabulary.find("<|begin_of_text|>");
        vocabulary.eos = vocabulary.find("<|end_of_text|>");
        Ok(vocabulary)
    }

    /// The path, once every flag has been used.
    fn finish(self) -> Result<String, Failure> {
        if let Some(name) = self.values.keys().next() {
            return Err(format!("--{name} is not known").into());
        }
        self.path.ok_or_else(|| "usage: synthetic OUT.gguf [flags]".into())
    }
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// −1, 0 or 1, each as likely.
    fn trit(&mut self) -> i8 {
        (self.next() % 3) as i8 - 1
    }

    /// A number from −1 to 1, with more near 0.
    fn centred(&mut self) -> f32 {
        let bits = self.next();
        let part = |shift: u32| ((bits >> shift) & 0xffff) as f32 / 65_536.0;
        (part(0) + part(16) + part(32) + part(48)) / 2.0 - 1.0
    }
}
