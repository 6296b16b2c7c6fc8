//! Round trips through every container and every encoding.

use std::fs;

use crate::support::{I2_S, Sample, activation, open, open_error, read_trits, rotary_pairs};
use wf_core::{Activation, Rope, RotaryPairs};
use wf_formats::{
    BlockDiffusion, Container, Encoding, FloatEncoding, GgufWriter, I2sOrder, LayerTensor,
    MetadataValue, ModelFile, ModelInfo, OpenOptions, Rounding, Target, TensorName,
    TernaryEncoding, TokenizerSource, vocabulary_from_tokenizer_json,
};

/// The encodings that GGUF files are written with and that hold zeros.
fn ternary() -> impl Iterator<Item = TernaryEncoding> {
    TernaryEncoding::ALL.iter().copied().filter(|e| e.flag().is_some() && e.has_zero())
}

fn target(trits: TernaryEncoding, head: FloatEncoding) -> Target {
    Target::new(Container::Gguf(trits), head)
}

#[test]
fn gguf_keeps_every_number_in_every_encoding() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let floats = [FloatEncoding::F32, FloatEncoding::F16, FloatEncoding::BF16];
    let encodings = ternary().map(Encoding::Ternary).chain(floats.map(Encoding::Float));
    for (at, encoding) in encodings.enumerate() {
        fs::write(&path, sample.gguf(encoding, floats[at % 3], |_| {})).unwrap();
        let model = open(&path);
        sample.assert_same(&model);
        let found = model.tensor(TensorName::Layer(0, LayerTensor::Gate));
        match encoding {
            Encoding::Float(float) => {
                assert_eq!(found.unwrap().encoding, Encoding::TernaryFloats(float));
            }
            encoding => assert_eq!(found.unwrap().encoding, encoding),
        }
    }
}

#[test]
fn i2_s_orders_read_back_only_with_their_option() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    for order in [I2sOrder::Groups64, I2sOrder::FourRows] {
        let encoding = Encoding::Ternary(order.encoding());
        fs::write(&path, sample.gguf(encoding, FloatEncoding::F32, |_| {})).unwrap();
        let named = OpenOptions { i2s_order: Some(order), ..OpenOptions::default() };
        sample.assert_same(&ModelFile::open(&path, &named).unwrap());
        let name = *sample.trits.keys().next().unwrap();
        assert!(read_trits(&open(&path), name) != sample.trits[&name]);
    }
}

#[test]
fn recommended_sampling_survives_gguf_and_directories() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let encoding = Encoding::Ternary(TernaryEncoding::I2_S);
    let bytes = sample.gguf(encoding, FloatEncoding::F32, |writer| {
        writer.set("general.sampling.temp", MetadataValue::F32(0.5));
        writer.set("general.sampling.top_k", MetadataValue::U32(40));
        writer.set("general.sampling.top_p", MetadataValue::F32(0.75));
        writer.set("general.sampling.min_p", MetadataValue::F32(0.25));
        writer.set("general.sampling.penalty_repeat", MetadataValue::F32(1.5));
    });
    fs::write(path("source.gguf"), bytes).unwrap();
    let source = open(&path("source.gguf"));
    assert_eq!(source.generation_defaults().top_k, Some(40));
    let packed = Target::new(Container::Packed, FloatEncoding::BF16);
    packed.write(&source, &path("packed")).unwrap();
    let packed = open(&path("packed"));
    assert_eq!(packed.generation_defaults(), source.generation_defaults());
    let gguf = target(TernaryEncoding::TQ2_0, FloatEncoding::F32);
    gguf.write(&packed, &path("again.gguf")).unwrap();
    assert_eq!(open(&path("again.gguf")).generation_defaults(), source.generation_defaults());
}

#[test]
fn a_model_survives_every_container_in_turn() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("0.gguf"), sample.gguf(I2_S, FloatEncoding::BF16, |_| {})).unwrap();
    Target::new(Container::Packed, FloatEncoding::F16)
        .write(&open(&at("0.gguf")), &at("1"))
        .unwrap();
    let packed = open(&at("1"));
    sample.assert_same(&packed);
    sample.assert_same(&open(&at("1").join("model.safetensors")));
    fs::create_dir(at("2")).unwrap();
    Target::new(Container::Sglbitnt, FloatEncoding::F32)
        .write(&packed, &at("2").join("model.bin"))
        .unwrap();
    let sglbitnt = open(&at("2").join("model.bin"));
    sample.assert_same(&sglbitnt);
    for (number, encoding) in ternary().enumerate() {
        let path = at(&format!("{}.gguf", number + 3));
        target(encoding, FloatEncoding::F32).write(&sglbitnt, &path).unwrap();
        sample.assert_same(&open(&path));
    }
}

#[test]
fn the_configuration_survives_every_container() {
    let mut sample = Sample::new();
    sample.info.eos = vec![5, 2];
    sample.info.bos = Some(1);
    sample.network.head.tied = false;
    sample.info.block_diffusion = Some(BlockDiffusion {
        mask_token: 4,
        block_len: 32,
        sub_block_len: Some(8),
        token_shift: false,
        causal_context: false,
    });
    let sample = Sample::of(sample.network, sample.info);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let bytes = sample.gguf(I2_S, FloatEncoding::F32, |writer| {
        writer.set("tokenizer.ggml.eos_token_ids", MetadataValue::U32s(vec![5, 2]));
        writer.set("tokenizer.ggml.bos_token_id", MetadataValue::U32(1));
        writer.set("tokenizer.ggml.mask_token_id", MetadataValue::U32(4));
        writer.set("diffusion.shift_logits", MetadataValue::Bool(false));
        writer.set("bitnet-b1.58.block_size", MetadataValue::U32(32));
        writer.set("bitnet-b1.58.block_diffusion.sub_block_size", MetadataValue::U32(8));
        writer.set("bitnet-b1.58.attention.causal", MetadataValue::Bool(false));
    });
    fs::write(at("0.gguf"), bytes).unwrap();
    let first = open(&at("0.gguf"));
    assert_eq!((first.network(), first.info()), (&sample.network, &sample.info));
    Target::new(Container::Packed, FloatEncoding::F32).write(&first, &at("1")).unwrap();
    fs::create_dir(at("2")).unwrap();
    Target::new(Container::Sglbitnt, FloatEncoding::F32)
        .write(&open(&at("1")), &at("2").join("model.bin"))
        .unwrap();
    let last = open(&at("2").join("model.bin"));
    let renamed = ModelInfo { architecture: "BitNetForCausalLM".to_owned(), ..sample.info.clone() };
    assert_eq!((last.network(), last.info()), (&sample.network, &renamed));
    sample.assert_same(&last);
}

#[test]
fn a_llama_is_turned_to_adjacent_pairs_and_back() {
    let Sample { mut network, info, .. } = Sample::named("llama");
    network.update_layers(|attention, dense| {
        (attention.sub_norm, dense.sub_norm) = (None, None);
        dense.activation = Activation::Silu;
        attention.rope = Some(Rope { pairs: RotaryPairs::Adjacent, ..Rope::default() });
    });
    let sample = Sample::of(network, info);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("0.gguf"), sample.gguf(I2_S, FloatEncoding::F32, |_| {})).unwrap();
    let first = open(&at("0.gguf"));
    assert_eq!((first.network(), first.info()), (&sample.network, &sample.info));
    Target::new(Container::Packed, FloatEncoding::F32).write(&first, &at("1")).unwrap();
    let halves = open(&at("1"));
    assert_eq!(rotary_pairs(&halves), RotaryPairs::Halves);
    let query = TensorName::Layer(1, LayerTensor::Query);
    let cols = sample.network.hidden_len;
    let (adjacent, halved) = (&sample.trits[&query], read_trits(&halves, query));
    // Row 3 of head 2 in adjacent order is the second of pair 1: row 32 + 1 in halves.
    let row = |trits: &[i8], row: usize| trits[row * cols..(row + 1) * cols].to_vec();
    assert_eq!(row(adjacent, 2 * 64 + 3), row(&halved, 2 * 64 + 33));
    target(TernaryEncoding::TQ2_0, FloatEncoding::F32).write(&halves, &at("2.gguf")).unwrap();
    sample.assert_same(&open(&at("2.gguf")));
}

#[test]
fn a_silu_model_with_sub_norms_keeps_its_activation() {
    let Sample { mut network, info, .. } = Sample::named("bitnet");
    network.update_layers(|_, dense| dense.activation = Activation::Silu);
    let sample = Sample::of(network, info);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, sample.gguf(I2_S, FloatEncoding::F32, |_| {})).unwrap();
    assert!(open_error(&path).contains("name the activation"));
    let silu = OpenOptions { activation: Some(Activation::Silu), ..OpenOptions::default() };
    let model = ModelFile::open(&path, &silu).unwrap();
    let copy = directory.path().join("copy.gguf");
    target(TernaryEncoding::IQ2_BN, FloatEncoding::F16).write(&model, &copy).unwrap();
    let model = open(&copy);
    assert_eq!(activation(&model), Activation::Silu);
    sample.assert_same(&model);
}

/// Two merges over four bytes, cut as Llama 3 cuts.
const TOKENIZER: &str = r#"{
  "version": "1.0",
  "added_tokens": [
    {"id": 4, "content": "<|eot_id|>", "special": true},
    {"id": 5, "content": "<b>", "special": false}
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
  ]},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|eot_id|>", "type_id": 0}}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": [["a", "b"], "ab a"]}
}"#;

#[test]
fn tokenizers_round_trip_through_gguf() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("0.gguf"), sample.gguf(I2_S, FloatEncoding::F32, |_| {})).unwrap();
    Target::new(Container::Packed, FloatEncoding::F32)
        .write(&open(&at("0.gguf")), &at("1"))
        .unwrap();
    fs::write(at("1").join("tokenizer.json"), TOKENIZER).unwrap();
    let settings = r#"{"bos_token": {"content": "<b>"}, "eos_token": "<|eot_id|>",
        "chat_template": [{"name": "tool", "template": "no"}, {"name": "default", "template": "yes"}]}"#;
    fs::write(at("1").join("tokenizer_config.json"), settings).unwrap();
    fs::write(at("1").join("generation_config.json"), r#"{"eos_token_id": [4, 3]}"#).unwrap();
    let source = open(&at("1"));
    assert_eq!(source.info().eos, [4, 3]);
    assert_eq!(source.chat_template(), Some("yes"));
    target(TernaryEncoding::TQ1_0, FloatEncoding::F32).write(&source, &at("2.gguf")).unwrap();
    let gguf = open(&at("2.gguf"));
    let TokenizerSource::Gguf(vocabulary) = gguf.tokenizer() else { panic!("no vocabulary") };
    assert_eq!(vocabulary.pre.as_deref(), Some("llama-bpe"));
    assert_eq!(vocabulary.tokens[..7], ["a", "b", "ab", "aba", "<|eot_id|>", "<b>", "[PAD6]"]);
    assert_eq!(vocabulary.token_types[..7], [1, 1, 1, 1, 3, 4, 5]);
    assert_eq!(vocabulary.tokens.len(), sample.network.vocab_len);
    assert_eq!(vocabulary.merges, ["a b", "ab a"]);
    assert_eq!(
        (vocabulary.eos, vocabulary.eot, vocabulary.add_bos),
        (Some(4), Some(4), Some(true))
    );
    assert_eq!(gguf.info().eos, [4, 3]);
    assert_eq!(gguf.chat_template(), Some("yes"));
    Target::new(Container::Packed, FloatEncoding::F32).write(&gguf, &at("3")).unwrap();
    target(TernaryEncoding::TQ1_0, FloatEncoding::F32)
        .write(&open(&at("3")), &at("4.gguf"))
        .unwrap();
    let again = open(&at("4.gguf"));
    let TokenizerSource::Gguf(second) = again.tokenizer() else { panic!("no vocabulary") };
    // Without a begin-of-text id there is nothing to put first, so that flag is not carried.
    assert_eq!(second.tokens, vocabulary.tokens);
    assert_eq!(second.token_types, vocabulary.token_types);
    assert_eq!((&second.merges, &second.pre), (&vocabulary.merges, &vocabulary.pre));
    assert_eq!(again.special_token_texts().eos.as_deref(), Some("<|eot_id|>"));
    assert_eq!(again.chat_template(), Some("yes"));
}

#[test]
fn rejects_pre_tokenizers_without_a_gguf_name() {
    let read = |json: &str| vocabulary_from_tokenizer_json(json.as_bytes(), 300);
    assert!(read(TOKENIZER).is_ok());
    let composed = TOKENIZER.replace(r#""normalizer": null"#, r#""normalizer": {"type": "NFC"}"#);
    let error = read(&composed).unwrap_err();
    assert!(error.contains("the normalizer") && error.contains("llama-bpe"), "{error}");
    // qwen2 cuts digits one by one, and composes.
    let qwen2 = |json: &str| read(&json.replace("{1,3}", "")).map(|vocabulary| vocabulary.pre);
    assert_eq!(qwen2(&composed), Ok(Some("qwen2".to_owned())));
    assert!(qwen2(TOKENIZER).unwrap_err().contains("the normalizer null"));
    assert!(read(&TOKENIZER.replace("{1,3}", "{1,4}")).unwrap_err().contains("has no name"));
}

#[test]
fn rejects_vocabularies_without_a_pre_tokenizer() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Sample::new().gguf(I2_S, FloatEncoding::F32, |writer| {
        writer.set("tokenizer.ggml.model", MetadataValue::String("gpt2".to_owned()));
        writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(vec!["a".to_owned()]));
    });
    let model = ModelFile::from_bytes("m", bytes.leak(), &OpenOptions::default()).unwrap();
    let error = Target::new(Container::Packed, FloatEncoding::F32)
        .write(&model, directory.path())
        .unwrap_err();
    assert!(error.to_string().contains("the pre-tokenizer is unknown"), "{error}");
}

#[test]
fn rejects_inexact_scales_unless_rounding_is_allowed() {
    let mut sample = Sample::new();
    sample.scales.values_mut().for_each(|scale| *scale = 0.1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let copy = directory.path().join("copy.gguf");
    fs::write(&path, sample.gguf(I2_S, FloatEncoding::F32, |_| {})).unwrap();
    let exact = target(TernaryEncoding::TQ2_0, FloatEncoding::F32);
    let error = exact.write(&open(&path), &copy).unwrap_err().to_string();
    assert!(error.contains("f16"), "{error}");
    assert!(!copy.exists(), "a failed write leaves nothing behind");
    let rounded = Target { rounding: Rounding::Allow, ..exact };
    rounded.write(&open(&path), &copy).unwrap();
}

#[test]
fn reports_every_decision() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let decisions = |encoding: TernaryEncoding, more: fn(&mut GgufWriter)| {
        let bytes = sample.gguf(Encoding::Ternary(encoding), FloatEncoding::F32, more);
        fs::write(&path, bytes).unwrap();
        let model = open(&path);
        (model.format().decisions.join("\n"), model.info().clone())
    };
    let (told, _) = decisions(TernaryEncoding::I2_S, |_| {});
    assert!(told.contains("activation squared ReLU: default of bitnet-b1.58"), "{told}");
    assert!(told.contains("I2_S order 128: the order of published files"), "{told}");
    for encoding in [TernaryEncoding::Q2_0, TernaryEncoding::Q2_0_G128] {
        let (told, _) = decisions(encoding, |_| {});
        assert!(told.contains(&format!("{encoding}: blk.")), "{told}");
    }
    let (told, info) = decisions(TernaryEncoding::TQ1_0, |writer| {
        let tokens = ["a", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "|<MASK>|"];
        writer.set("tokenizer.ggml.model", MetadataValue::String("gpt2".to_owned()));
        let tokens = tokens.map(str::to_owned).to_vec();
        writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(tokens));
        writer.set("tokenizer.ggml.token_type", MetadataValue::I32s(vec![1, 3, 3, 1, 3]));
        writer.set("tokenizer.ggml.eos_token_id", MetadataValue::U32(1));
        writer.set("bitnet-b1.58.block_size", MetadataValue::U32(16));
    });
    // The third end is plain text in this vocabulary, so it ends nothing.
    assert_eq!(info.eos, [1, 2]);
    assert!(told.contains("token 2 ends a completion"), "{told}");
    let block = info.block_diffusion.unwrap();
    assert_eq!((block.mask_token, block.token_shift, block.causal_context), (4, true, true));
    assert!(told.contains("mask token 4: its text is |<MASK>|"), "{told}");
}

#[test]
fn the_vocabulary_tells_the_two_families_of_bitnet_apart() {
    let sample = Sample::named("bitnet");
    for (model, expected) in [("llama", Activation::Silu), ("gpt2", Activation::Relu2)] {
        let bytes = sample.gguf(I2_S, FloatEncoding::F32, |writer| {
            writer.set("tokenizer.ggml.model", MetadataValue::String(model.to_owned()));
            writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(vec!["a".to_owned()]));
        });
        let model = ModelFile::from_bytes("m", bytes.leak(), &OpenOptions::default()).unwrap();
        assert_eq!(activation(&model), expected);
        assert!(model.format().decisions.iter().any(|why| why.contains("vocabulary")));
    }
}
