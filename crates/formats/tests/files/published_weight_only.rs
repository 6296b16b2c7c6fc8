//! Small replicas of published models that quantize weights only, with their keys, names and types.
//!
//! As in `published`, the files themselves are not available to tests: docs/formats.md names the sources.

use serde_json::json;
use wf_core::{
    ActivationCodes, Experts, Ffn, Mixer, Network, Norm, Rope, RopeDivisors, RopeScaling,
    RotaryPairs, Yarn,
};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding as F, GgufWriter, LayerTensor, MetadataValue as V, ModelFile,
    ModelInfo, OpenOptions, Rounding, ScaleUnit, Scales, TensorName, TernaryEncoding as T,
};

use crate::hugging_face::Weights;
use crate::published::{Published, info, llama, text};
use crate::support::{Random, Sample, read_trits};

/// A replica: its network, and the encodings of its tensors in GGUF.
struct Replica {
    network: Network,
    architecture: &'static str,
    linears: T,
    /// Encodings of the embedding and of the output head.
    tables: [Encoding; 2],
    /// Divisors of rotary frequencies, which are tensors of their own.
    divisors: RopeDivisors,
}

impl Replica {
    fn encoding(&self, name: TensorName) -> Encoding {
        match name {
            TensorName::Embedding => self.tables[0],
            TensorName::Output => self.tables[1],
            name if name.is_linear() => Encoding::Ternary(self.linears),
            _ => Encoding::Float(F::F32),
        }
    }

    /// Writes the file with random trits, opens it, and checks its network, types, trits and scales.
    fn check(&self, more: impl FnOnce(&mut GgufWriter)) -> ModelFile {
        let architecture = self.architecture;
        let info = ModelInfo { architecture: architecture.to_owned(), ..Sample::new().info };
        let mut writer = GgufWriter::new();
        Sample::of(self.network.clone(), info).metadata(&mut writer, architecture);
        more(&mut writer);
        let names: Vec<TensorName> = TensorName::all(&self.network).collect();
        for &name in &names {
            let (rows, cols) = name.shape(&self.network).unwrap();
            let (name, shape) = match name {
                TensorName::Expert(_, 1.., _) => continue,
                TensorName::Expert(layer, ..) => {
                    let experts = self.network.layers[layer].ffn.experts().unwrap().experts;
                    (name.gguf().replace(".0.weight", "_exps.weight"), vec![experts, rows, cols])
                }
                _ if name.is_norm() => (name.gguf(), vec![cols]),
                _ => (name.gguf(), vec![rows, cols]),
            };
            let of =
                TensorName::from_gguf(&name).unwrap_or(TensorName::Expert(0, 0, LayerTensor::Up));
            writer.declare(&name, &shape, self.encoding(of)).unwrap();
        }
        let divisors = [("long", &self.divisors.long), ("short", &self.divisors.short)];
        for (name, values) in divisors.iter().filter(|(_, values)| !values.is_empty()) {
            let name = format!("rope_factors_{name}.weight");
            writer.declare(&name, &[values.len()], Encoding::Float(F::F32)).unwrap();
        }
        let mut random = Random(11);
        let contents: Vec<Content> =
            names.iter().map(|&name| self.content(name, &mut random)).collect();
        let mut body = writer.begin(Vec::new()).unwrap();
        contents.iter().for_each(|content| body.append(&content.bytes).unwrap());
        for (_, values) in divisors.iter().filter(|(_, values)| !values.is_empty()) {
            body.append(&encode_floats(F::F32, values).unwrap()).unwrap();
        }
        let bytes = body.finish().unwrap().leak();
        let model = ModelFile::from_bytes("m.gguf", bytes, &OpenOptions::default());
        let model = model.unwrap_or_else(|error| panic!("{architecture}: {error}"));
        assert_eq!(model.network(), &self.network, "{architecture}");
        for (name, Content { trits, scales, .. }) in names.into_iter().zip(contents) {
            let tensor = model.tensor(name).unwrap();
            assert_eq!(tensor.encoding, self.encoding(name), "{name}");
            if let (Some(trits), Some(scales)) = (trits, scales) {
                assert!(read_trits(&model, name) == trits, "{name}: trits differ");
                assert_eq!(model.scales(tensor).unwrap(), scales, "{name}");
            }
        }
        model
    }

    fn content(&self, name: TensorName, random: &mut Random) -> Content {
        let (rows, cols) = name.shape(&self.network).unwrap();
        let encoding = match self.encoding(name) {
            Encoding::Ternary(encoding) => encoding,
            Encoding::Float(float) if float == F::F32 => {
                let bytes = encode_floats(F::F32, &vec![1.0; rows * cols]).unwrap();
                return Content { bytes, trits: None, scales: None };
            }
            // Blocks of zeros: the readers of these encodings have tests of their own.
            other => {
                let bytes = vec![0; other.size(rows, cols).unwrap() as usize];
                return Content { bytes, trits: None, scales: None };
            }
        };
        let signs_only = encoding == T::Q1_0;
        let trit = |_| match signs_only {
            true => 2 * (random.next() % 2) as i8 - 1,
            false => (random.next() % 3) as i8 - 1,
        };
        let trits: Vec<i8> = (0..rows * cols).map(trit).collect();
        let scale = |at: usize| (1 + at % 5) as f32 / 256.0;
        let scales = match encoding.scale_unit() {
            // A row of one group has a scale of its own.
            Some(ScaleUnit::Group(len)) if len == cols => {
                Scales::Rows((0..rows).map(scale).collect())
            }
            // Maple has a scale per row.
            Some(ScaleUnit::Group(_)) if self.architecture == "maple" => {
                Scales::Rows((0..rows).map(scale).collect())
            }
            Some(ScaleUnit::Group(len)) => {
                Scales::Groups { len, values: (0..rows * cols / len).map(scale).collect() }
            }
            _ => Scales::Tensor(scale(0)),
        };
        let bytes = encode_trits(encoding, &trits, rows, cols, &scales, Rounding::Exact).unwrap();
        Content { bytes, trits: Some(trits), scales: Some(scales) }
    }
}

/// The content of a tensor.
struct Content {
    bytes: Vec<u8>,
    trits: Option<Vec<i8>>,
    scales: Option<Scales>,
}

/// A decoder without sub-norms.
fn decoder(tied: bool, activations: ActivationCodes) -> Network {
    let mut network = llama().network;
    network.head.tied = tied;
    network.activations = activations;
    network.update_layers(|attention, _| attention.rope = Some(Rope::default()));
    network
}

fn with_head_norms(mut network: Network) -> Network {
    network.update_layers(|attention, _| attention.qk_norm = Some(Norm::default()));
    network
}

#[test]
fn bonsai_models_of_every_type_open_with_ternary_tables_and_yarn() {
    let yarn = Yarn {
        factor: 4.0,
        original_len: 32,
        fast_turns: 32.0,
        slow_turns: 1.0,
        attention_factor: f64::from(Yarn::published_attention_factor(4.0, 1.0) as f32),
        whole_indices: true,
    };
    // The published types, with the file type that each is reported to name; 8B has a head of its own.
    let published =
        [(T::Q2_0, 40), (T::Q2_0_G128, 41), (T::PQ2_0, 141), (T::PTQ1_0, 143), (T::Q1_0, 40)];
    for ((linears, file_type), tied) in published.into_iter().flat_map(|p| [(p, true), (p, false)])
    {
        let mut network = with_head_norms(decoder(tied, ActivationCodes::Int16));
        network.update_layers(|attention, _| {
            attention.rope = Some(Rope { scaling: RopeScaling::Yarn(yarn), ..Rope::default() });
        });
        let table = Encoding::Ternary(linears);
        let divisors = RopeDivisors::default();
        let replica =
            Replica { network, architecture: "qwen3", linears, tables: [table, table], divisors };
        replica.check(|writer| {
            writer.set("general.file_type", V::U32(file_type));
            writer.set("qwen3.attention.key_length", V::U32(64));
            writer.set("qwen3.attention.value_length", V::U32(64));
            writer.set("qwen3.rope.scaling.type", text("yarn"));
            writer.set("qwen3.rope.scaling.factor", V::F32(4.0));
            writer.set("qwen3.rope.scaling.original_context_length", V::U32(32));
            writer.set("tokenizer.ggml.pre", text("qwen2"));
        });
    }
}

#[test]
fn maple_opens_with_its_experts_windows_and_tables() {
    for (linears, head) in [(T::TQ2_0, F::Q4_K), (T::TQ1_0, F::F16)] {
        let mut network = with_head_norms(decoder(false, ActivationCodes::Int16));
        network.layers = vec![network.layers[0]; 4];
        for (index, layer) in network.layers.iter_mut().enumerate() {
            let Mixer::Attention(attention) = &mut layer.mixer else { unreachable!() };
            let is_full = index == 3;
            attention.window = (!is_full).then_some(512);
            let rope = Rope { dims: Some(32), ..Rope::default() };
            attention.rope = (!is_full).then_some(rope);
            let mut expert = *layer.ffn.block();
            (expert.ffn_len, expert.limit) = (256, Some(7.0));
            let (renormalize, shared) = (true, None);
            let mixture = Experts { experts: 8, active: 2, renormalize, expert, shared };
            layer.ffn = Ffn::Experts(mixture);
        }
        let tables = [Encoding::Float(F::F16), Encoding::Float(head)];
        let divisors = RopeDivisors::default();
        let replica = Replica { network, architecture: "maple", linears, tables, divisors };
        replica.check(|writer| {
            writer.set("maple.attention.key_length", V::U32(64));
            writer.set("maple.attention.value_length", V::U32(64));
            writer.set("maple.rope.dimension_count", V::U32(32));
            writer.set("maple.attention.sliding_window", V::U32(512));
            let pattern = vec![true, true, true, false];
            writer.set("maple.attention.sliding_window_pattern", V::Bools(pattern));
            writer.set("maple.expert_count", V::U32(8));
            writer.set("maple.expert_used_count", V::U32(2));
            writer.set("maple.expert_feed_forward_length", V::U32(256));
            writer.set("maple.swiglu_clamp_exp", V::F32s(vec![7.0; 4]));
        });
    }
}

/// The network of a BitCPM4 model, with the divisors of LongRoPE.
fn bitcpm4(tied: bool, pairs: RotaryPairs) -> Network {
    let mut network = decoder(tied, ActivationCodes::Int16);
    network.embedding.scale = Some(12.0);
    network.residual_scale = Some((1.4 / 2f64.sqrt()) as f32);
    network.head.divisor = Some(1.0);
    let short: Vec<f32> = (0..32).map(|pair| 1.0 + pair as f32 / 64.0).collect();
    let long: Vec<f32> = (0..32).map(|pair| 1.0 + pair as f32).collect();
    network.rope_divisors = RopeDivisors { short, long };
    let scaling = RopeScaling::Divided { original_len: 64, attention_factor: 1.125 };
    network.update_layers(|attention, _| {
        attention.rope = Some(Rope { pairs, scaling, ..Rope::default() });
    });
    network
}

#[test]
fn bitcpm4_opens_from_the_file_of_llama_quantize_and_from_floats() {
    // A tied embedding has the type of heads, an untied one its own.
    let float = Encoding::Float;
    for (tied, tables) in
        [(true, [float(F::Q6_K), float(F::Q6_K)]), (false, [float(F::Q4_K), float(F::Q6_K)])]
    {
        let network = bitcpm4(tied, RotaryPairs::Adjacent);
        let divisors = network.rope_divisors.clone();
        let linears = T::TQ2_0;
        let replica = Replica { network, architecture: "minicpm", linears, tables, divisors };
        replica.check(|writer| {
            writer.set("minicpm.embedding_scale", V::F32(12.0));
            writer.set("minicpm.residual_scale", V::F32((1.4 / 2f64.sqrt()) as f32));
            writer.set("minicpm.logit_scale", V::F32(1.0));
            writer.set("minicpm.rope.dimension_count", V::U32(64));
            writer.set("minicpm.rope.scaling.type", text("longrope"));
            writer.set("minicpm.rope.scaling.original_context_length", V::U32(64));
            writer.set("minicpm.rope.scaling.attn_factor", V::F32(1.125));
        });
    }
    let network = bitcpm4(true, RotaryPairs::Halves);
    let RopeDivisors { short, long } = &network.rope_divisors;
    let config = json!({
        "architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "hidden_act": "silu",
        "auto_map": { "AutoModelForCausalLM": "modeling_minicpm.MiniCPMForCausalLM" },
        "bos_token_id": 1, "eos_token_id": [2, 290], "pad_token_id": 2,
        "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256,
        "rope_scaling": {
            "rope_type": "longrope", "short_factor": short, "long_factor": long,
            "original_max_position_embeddings": 64, "attention_factor": 1.125,
        },
        "tie_word_embeddings": true, "use_cache": true,
    });
    let mut info = info("MiniCPMForCausalLM", 1, 2);
    info.eos.push(290);
    let weights = Weights::Floats(F::BF16);
    let spell = TensorName::hugging_face;
    Published { config, network, info, weights, spell, factor: Some(|scale| scale) }.check();
}

#[test]
fn trilm_opens_from_the_files_of_llama_quantize() {
    for linears in [T::TQ1_0, T::TQ2_0] {
        let mut network = decoder(false, ActivationCodes::Int8);
        let rope = Some(Rope { pairs: RotaryPairs::Adjacent, ..Rope::default() });
        network.update_layers(|attention, _| attention.rope = rope);
        let tables = [Encoding::Float(F::Q4_K), Encoding::Float(F::Q6_K)];
        let divisors = RopeDivisors::default();
        let replica = Replica { network, architecture: "llama", linears, tables, divisors };
        replica.check(|writer| {
            writer.set("llama.rope.dimension_count", V::U32(64));
            writer.set("llama.vocab_size", V::U32(300));
        });
    }
}

/// TriLM "unpacked" in float16, and the revision `bfloat16` of Falcon-E.
#[test]
fn llama_floats_that_are_ternary_open_without_a_quantization() {
    for (float, bos, eos) in [(F::F16, 0, 0), (F::BF16, 280, 281)] {
        let network = decoder(false, ActivationCodes::Int16);
        let config = json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "attention_bias": false, "mlp_bias": false, "pretraining_tp": 1, "rope_scaling": null,
            "tie_word_embeddings": false, "bos_token_id": bos, "eos_token_id": eos,
        });
        let (info, weights) = (info("LlamaForCausalLM", bos, eos), Weights::Floats(float));
        let spell = TensorName::hugging_face;
        Published { config, network, info, weights, spell, factor: Some(|scale| scale) }.check();
    }
}
