//! Unsupported features of a vocabulary file are errors that name them.
use serde_json::{Value, json};
use wf_text::{Tokenizer, Vocabulary};

use crate::common;

fn error_message(json: &Value) -> String {
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn unsupported_parts_of_tokenizer_json_are_named() {
    let good = common::byte_level_json(common::split_then_bytes(common::LLAMA3));
    assert!(Tokenizer::from_json(good.to_string().as_bytes()).is_ok());
    let cases: &[(&str, Value, &str)] = &[
        ("/model/type", json!("WordPiece"), "WordPiece"),
        ("/model", json!({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0]]}), "Unigram"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model/end_of_word_suffix", json!("</w>"), "</w>"),
        ("/model/continuing_subword_prefix", json!("##"), "##"),
        ("/model/unk_token", json!("<nope>"), "<nope>"),
        ("/model/merges/0", json!(["Ġ", "nope"]), "nope"),
        ("/model/merges/0", json!("a b c"), "a b c"),
        ("/model/vocab/a", json!(4_000_000_000_u32), "4000000000"),
        ("/model/vocab/a", json!(-1), "-1"),
        ("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!("(a+)+$"), "(a+)+$"),
        ("/pre_tokenizer/pretokenizers/0/behavior", json!("MergedWithNext"), "MergedWithNext"),
        ("/pre_tokenizer/pretokenizers/1/use_regex", json!(true), "use_regex"),
        ("/pre_tokenizer", json!({"type": "Whitespace"}), "Whitespace"),
        ("/normalizer", json!({"type": "Lowercase"}), "Lowercase"),
        (
            "/normalizer",
            json!({"type": "Replace", "pattern": {"Regex": "x+"}, "content": ""}),
            "x+",
        ),
        (
            "/post_processor",
            json!({"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]}),
            "BertProcessing",
        ),
        ("/decoder", json!({"type": "WordPiece"}), "WordPiece"),
        ("/added_tokens/0/content", json!(""), "0 bytes"),
        ("/added_tokens/0/content", json!("other"), "other"),
    ];
    for (pointer, value, word) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
        let message = error_message(&bad);
        assert!(message.contains(word), "{pointer}: {message}");
        assert!(!message.ends_with('.') && message.starts_with("tokenizer"), "{message}");
    }
}

#[test]
fn broken_json_is_an_error_with_a_place() {
    for bytes in [&b""[..], b"{", b"[]", b"{\"model\": {\"type\": \"BPE\"}}", b"\xff\xfe"] {
        let message = Tokenizer::from_json(bytes).unwrap_err().to_string();
        assert!(message.starts_with("tokenizer.json: "), "{message}");
    }
    let deep = "[".repeat(100_000);
    assert!(Tokenizer::from_json(deep.as_bytes()).is_err());
}

#[test]
fn unsupported_gguf_vocabularies_are_named() {
    let good = Vocabulary {
        model: "gpt2".into(),
        pre: Some("llama-bpe".into()),
        tokens: ["a", "b", "ab", "<s>"].map(String::from).to_vec(),
        token_types: vec![1, 1, 1, 3],
        merges: vec!["a b".into()],
        bos: Some(3),
        ..Vocabulary::default()
    };
    let tokenizer = Tokenizer::from_gguf(good.clone()).unwrap();
    assert_eq!(tokenizer.encode("ab<s>"), [2]);
    assert_eq!(tokenizer.encode_with_specials("ab<s>"), [2, 3]);
    assert_eq!(tokenizer.prompt_prefix(), [3]);
    assert_eq!((tokenizer.token_bytes(3), tokenizer.token_bytes(4)), (Some(&b"<s>"[..]), None));
    assert_eq!(
        (tokenizer.token_text(2), tokenizer.bos(), tokenizer.len()),
        (Some("ab"), Some(3), 4)
    );

    let cases: Vec<(Vocabulary, &str)> = vec![
        (Vocabulary { model: "bert".into(), ..good.clone() }, "gpt2, llama"),
        (Vocabulary { pre: None, ..good.clone() }, "missing"),
        (Vocabulary { pre: Some("default".into()), ..good.clone() }, "llama-bpe"),
        (Vocabulary { pre: Some("minicpm5".into()), ..good.clone() }, "ggml.pre is \"minicpm5\""),
        (Vocabulary { pre: Some("maple".into()), ..good.clone() }, "open the model's Hugging Face"),
        (Vocabulary { token_types: vec![1], ..good.clone() }, "1 token types"),
        (Vocabulary { bos: Some(9), ..good.clone() }, "bos_token_id is 9"),
        (Vocabulary { merges: vec!["ab".into()], ..good.clone() }, "merge 0"),
        (Vocabulary { merges: vec!["b a".into()], ..good.clone() }, "\"ba\""),
        (Vocabulary { model: "llama".into(), ..good }, "0 scores"),
    ];
    for (vocab, word) in cases {
        let message = Tokenizer::from_gguf(vocab).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn lists_of_tokenizer_json_have_the_limits_of_other_vocabularies() {
    let file = |vocab: &str, merges: &str, added: &str| {
        let json = format!(
            r#"{{"added_tokens": [{added}], "model": {{"type": "BPE", "vocab": {{{vocab}}}, "merges": [{merges}]}}}}"#
        );
        Tokenizer::from_json(json.as_bytes()).unwrap_err().to_string()
    };
    let beyond = (1 << 20) + 1;
    let merges = vec!["\"a b\""; beyond].join(",");
    assert!(file("", &merges, "").contains("more than 1048576 entries"));
    let vocab: Vec<_> = (0..beyond).map(|id| format!("\"{id}\":{id}")).collect();
    assert!(file(&vocab.join(","), "", "").contains("more than 1048576 entries"));
    let added = vec![r#"{"id":0,"content":"a"}"#; beyond].join(",");
    assert!(file("", "", &added).contains("more than 1048576 entries"));
    let long = format!("\"{}\":0", "x".repeat(70_000));
    assert!(file(&long, "", "").contains("70000 bytes: must be at most 65536"));
}
