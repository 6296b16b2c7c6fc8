//! Vocabularies to test with: real ones if they are at hand, small ones trained on the spot always.
use std::path::{Path, PathBuf};

use serde_json::json;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, PreTokenizerWrapper, Tokenizer as Oracle, TokenizerBuilder};
use wf_text::Tokenizer;

/// A file of the shared material beside the repository, or `None` (and a line that says so).
pub(crate) fn shared(path: &str) -> Option<Vec<u8>> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        #[expect(clippy::print_stdout, reason = "a skipped test says so")]
        {
            println!("skipped: {} is absent", path.display());
        }
    }
    bytes
}

/// Our tokenizer and the reference, from the same file.
pub(crate) struct Both {
    pub(crate) name: String,
    pub(crate) ours: Tokenizer,
    pub(crate) oracle: Oracle,
    /// The reference told to read special tokens as text.
    pub(crate) plain_oracle: Oracle,
}

impl Both {
    pub(crate) fn new(name: &str, json: &[u8]) -> Self {
        let oracle = Oracle::from_bytes(json).unwrap();
        let mut plain_oracle = oracle.clone();
        plain_oracle.set_encode_special_tokens(true);
        Both {
            name: name.to_owned(),
            ours: Tokenizer::from_json(json).unwrap(),
            oracle,
            plain_oracle,
        }
    }

    /// The two agree on `text` through both doors, and back.
    pub(crate) fn check(&self, text: &str) {
        let composed = self.oracle.encode_fast(text, false).unwrap();
        let head: String = text.chars().take(200).collect();
        let name = &self.name;
        assert_eq!(self.ours.encode_with_specials(text), composed.get_ids(), "{name}: {head:?}");
        let plain = self.plain_oracle.encode_fast(text, false).unwrap();
        assert_eq!(self.ours.encode(text), plain.get_ids(), "{name}, plain: {head:?}");
        for skip_specials in [false, true] {
            let expected = self.oracle.decode(composed.get_ids(), skip_specials).unwrap();
            assert_eq!(self.ours.decode(composed.get_ids(), skip_specials), expected, "{name}");
        }
    }
}

pub(crate) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
pub(crate) const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A split by `pattern`, then byte-level, as Llama 3 and Qwen 2 have it.
pub(crate) fn split_then_bytes(pattern: &str) -> serde_json::Value {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
    ]})
}

/// GPT-2's own pre-tokenizer.
pub(crate) fn gpt2_bytes(add_prefix_space: bool) -> serde_json::Value {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": true})
}

/// A byte-level `tokenizer.json` trained on [`corpus`].
pub(crate) fn byte_level_json(pre_tokenizer: serde_json::Value) -> serde_json::Value {
    let mut model = trained(pre_tokenizer, ByteLevel::alphabet().into_iter().collect());
    model["decoder"] = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    model
}

/// A `tokenizer.json` in the manner of Llama 2.
pub(crate) fn sentence_piece_json() -> serde_json::Value {
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let mut json = trained(metaspace, ('!'..='~').chain(['▁', 'é', '漢']).collect());
    let vocab = json["model"]["vocab"].as_object_mut().unwrap();
    let first_free = vocab.len();
    for byte in 0..=255 {
        vocab.insert(format!("<0x{byte:02X}>"), (first_free + byte).into());
    }
    vocab.insert("<unk>".into(), (first_free + 256).into());
    json["model"]["unk_token"] = "<unk>".into();
    json["model"]["byte_fallback"] = true.into();
    json["model"]["fuse_unk"] = true.into();
    json["pre_tokenizer"] = serde_json::Value::Null;
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    ]});
    json["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    ]});
    json
}

fn trained(pre_tokenizer: serde_json::Value, alphabet: Vec<char>) -> serde_json::Value {
    let specials = ["<|begin|>", "<|end|>", "<|eot_id|>"].map(|text| AddedToken::from(text, true));
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(1200)
        .initial_alphabet(alphabet.into_iter().collect())
        .special_tokens(specials.to_vec())
        .build();
    let pre_tokenizer: PreTokenizerWrapper = serde_json::from_value(pre_tokenizer).unwrap();
    let mut tokenizer = TokenizerBuilder::<
        BPE,
        tokenizers::NormalizerWrapper,
        PreTokenizerWrapper,
        tokenizers::PostProcessorWrapper,
        tokenizers::DecoderWrapper,
    >::new()
    .with_model(BPE::default())
    .with_pre_tokenizer(Some(pre_tokenizer))
    .build()
    .unwrap();
    tokenizer.train(&mut trainer, corpus().into_iter()).unwrap();
    let mut json = serde_json::to_value(&tokenizer).unwrap();
    let next = json["model"]["vocab"].as_object().unwrap().len();
    let added = json["added_tokens"].as_array_mut().unwrap();
    added.push(json!({"id": next, "content": "<tool>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": false}));
    json["model"]["vocab"].as_object_mut().unwrap().insert("<tool>".into(), next.into());
    json
}

/// Text to train on and to compare on.
pub(crate) fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = [
        "The quick brown fox jumps over the lazy dog. It's what they'd do, isn't it? WE'LL see; I'M sure.",
        "fn main() {\n    let x: Vec<u32> = (0..10).map(|i| i * 2).collect();\n\n\tprintln!(\"{x:?}\");\r\n}\n",
        "Numbers: 1 22 333 4444 55555, 3.14159, 1e-9, ١٢٣٤, Ⅳ, ½, 二〇二六年.",
        "Grüße aus Köln! Ça va? Ĉu vi parolas Esperanton? Größe, naïve, façade, ſo it'ſ old; IT'S.",
        "Привет, как дела? Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. สวัสดีชาวโลก",
        "你好，世界！これはテストです。한국어 문장입니다.漢字かな交じり文。",
        "emoji 😀😃🧑‍🚀👩‍👩‍👧‍👦🏳️‍🌈 and flags 🇫🇷🇯🇵 ✨✨✨",
        "e\u{301}a\u{308}\u{323}o\u{302}\u{301} zalgo h\u{363}\u{332}\u{315}e\u{349}\u{31b}l\u{363}o \u{301}\u{301}\u{301}",
        "   leading, trailing   \n\n\n   tabs\t\t\tand \u{a0}nbsp\u{3000}ideographic \u{2028} \u{85}\r\n\r\n \r x  ",
        "punctuation!!! ... --- ((())) [[{}]] <|not_special|> <|end| <tool> <|eot_id|>x<|eot_id|><|begin|>",
        "'s 't 're 've 'm 'll 'd 'S 'RE 'Ll 'x ''s '' don't DON'T o'clock 'tis",
        "zero\u{200b}width\u{200d}joiners\u{feff} controls\u{0}\u{1}\u{7f} private\u{e000} unassigned\u{378} last\u{10ffff}",
        "https://example.org/a?b=c&d=%20#frag user@example.com C:\\path\\to\\file __init__ snake_case camelCase",
        "",
        " ",
        "\n",
        "a",
        "  \n  \n a",
    ]
    .map(String::from)
    .to_vec();
    texts.push(texts.join(" "));
    texts
}
