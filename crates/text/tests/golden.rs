//! Tokens of the demo model equal those of Transformers, from both files that contain its vocabulary.
use serde_json::Value;
use wf_text::{ChatMessage, ChatTemplate, Detokenizer, RenderOptions, Tokenizer, Vocabulary};

use crate::common;

fn demo() -> Option<(Tokenizer, Value)> {
    let tokenizer = Tokenizer::from_json(&common::shared("models/demo/tokenizer.json")?).unwrap();
    let golden = serde_json::from_slice(&common::shared("golden/demo.json")?).unwrap();
    Some((tokenizer, golden))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap().try_into().unwrap()).collect()
}

#[test]
fn prompts_become_the_recorded_tokens() {
    let Some((tokenizer, golden)) = demo() else { return };
    let config: Value =
        serde_json::from_slice(&common::shared("models/demo/tokenizer_config.json").unwrap())
            .unwrap();
    let template = ChatTemplate::new(config["chat_template"].as_str().unwrap()).unwrap();
    let options = RenderOptions {
        add_generation_prompt: true,
        bos_token: config["bos_token"].as_str().map(String::from),
        eos_token: config["eos_token"].as_str().map(String::from),
        specials: tokenizer.special_texts().clone(),
        ..RenderOptions::default()
    };
    let bos = tokenizer.id_of("<|begin_of_text|>").unwrap();
    let cases = golden.as_array().unwrap();
    let mut chats = 0;
    for case in cases {
        let expected = ids(&case["ids"]);
        if case["kind"] == "text" {
            let mut found = vec![bos];
            found.extend(tokenizer.encode(case["input"].as_str().unwrap()));
            assert_eq!(found, expected, "{}", case["input"]);
        } else {
            chats += 1;
            let messages = messages(&case["input"]);
            let prompt = template.render(&messages, &options).unwrap();
            assert_eq!(prompt.text(), case["rendered"].as_str().unwrap());
            assert_eq!(tokenizer.encode_prompt(&prompt), expected);
        }
        let greedy = ids(&case["greedy"]);
        assert_eq!(tokenizer.decode(&greedy, false), case["greedy_text"].as_str().unwrap());
        let mut streamed = String::new();
        let mut detokenizer = Detokenizer::new(false);
        for id in greedy {
            streamed.push_str(&detokenizer.push(&tokenizer, id));
        }
        assert_eq!(streamed + &detokenizer.finish(), case["greedy_text"].as_str().unwrap());
    }
    assert!(chats > 0 && chats < cases.len());
}

fn messages(input: &Value) -> Vec<ChatMessage> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match input {
        Value::String(text) => vec![ChatMessage::new("user", text.as_str())],
        Value::Array(turns) => {
            turns.iter().map(|m| ChatMessage::new(text(&m["role"]), text(&m["content"]))).collect()
        }
        other => panic!("{other}"),
    }
}

/// Converts a `tokenizer.json` to the vocabulary of a GGUF file.
fn as_gguf(json: &Value, pre: &str) -> Vocabulary {
    let added = json["added_tokens"].as_array().unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let of_added =
        added.iter().map(|t| (t["content"].as_str().unwrap(), t["id"].as_u64().unwrap()));
    let entries = vocab.iter().map(|(text, id)| (text.as_str(), id.as_u64().unwrap()));
    let mut tokens: Vec<(u64, String)> =
        entries.chain(of_added).map(|(text, id)| (id, text.to_owned())).collect();
    tokens.sort();
    tokens.dedup();
    let mut token_types = vec![1; tokens.len()];
    for token in added {
        let special = token["special"].as_bool().unwrap();
        token_types[token["id"].as_u64().unwrap() as usize] = if special { 3 } else { 4 };
    }
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|m| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()));
    Vocabulary {
        model: "gpt2".into(),
        pre: Some(pre.into()),
        tokens: tokens.into_iter().map(|(_, text)| text).collect(),
        token_types,
        merges: merges.collect(),
        bos: Some(0),
        ..Vocabulary::default()
    }
}

#[test]
fn a_vocabulary_from_gguf_equals_the_one_from_json() {
    let trained = |pattern| common::byte_level_json(common::split_then_bytes(pattern)).to_string();
    let mut cases = vec![
        ("gpt-2", trained(common::GPT2).into_bytes()),
        ("qwen2", {
            let mut json: Value = serde_json::from_str(&trained(common::QWEN2)).unwrap();
            json["normalizer"] = serde_json::json!({"type": "NFC"});
            json.to_string().into_bytes()
        }),
    ];
    for path in ["models/demo/tokenizer.json", "tokenizers/llama3/tokenizer.json"] {
        cases.extend(common::shared(path).map(|bytes| ("llama-bpe", bytes)));
    }
    for (pre, bytes) in cases {
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let from_json = Tokenizer::from_json(&bytes).unwrap();
        let from_gguf = Tokenizer::from_gguf(as_gguf(&json, pre)).unwrap();
        assert_eq!(from_gguf.len(), from_json.len());
        assert!(from_gguf.special_tokens().eq(from_json.special_tokens()));
        for text in common::corpus() {
            assert_eq!(from_gguf.encode(&text), from_json.encode(&text), "{pre}: {text:?}");
            let composed = from_json.encode_with_specials(&text);
            assert_eq!(from_gguf.encode_with_specials(&text), composed, "{pre}: {text:?}");
            assert_eq!(from_gguf.decode(&composed, true), from_json.decode(&composed, true));
        }
    }
}

#[test]
fn a_scored_vocabulary_equals_its_merges() {
    // As converters do it: the score of a token is the negative rank of its merge.
    let json = common::sentence_piece_json();
    let mut vocab = as_gguf(&json, "");
    vocab.model = "llama".into();
    vocab.pre = None;
    let unknown = vocab.tokens.iter().position(|text| text == "<unk>").unwrap();
    vocab.token_types[unknown] = 2;
    vocab.scores = vec![0.0; vocab.tokens.len()];
    for (rank, merge) in vocab.merges.iter().enumerate() {
        let text = merge.replace(' ', "");
        let id = vocab.tokens.iter().position(|token| *token == text).unwrap();
        vocab.scores[id] = -(rank as f32) - 1.0;
    }
    vocab.merges.clear();
    let from_scores = Tokenizer::from_gguf(vocab).unwrap();
    let from_merges = Tokenizer::from_json(json.to_string().as_bytes()).unwrap();
    assert_eq!(from_scores.prompt_prefix(), [0]);
    // After an added token a new text begins, with its own space, which decoding keeps.
    for text in common::corpus().into_iter().filter(|text| !text.contains("<tool>")) {
        let found = from_scores.encode(&text);
        // With scores, any two adjacent tokens that form a token may merge, with a list only the listed ones,
        // so the tokens may differ but not the text.
        assert_eq!(from_scores.decode(&found, false), text);
        assert!(found.len() <= from_merges.encode(&text).len() + text.len() / 20, "{text:?}");
    }
    let hello = from_scores.encode("The quick brown fox");
    assert_eq!(hello, from_merges.encode("The quick brown fox"));
}
