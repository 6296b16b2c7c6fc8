//! A text has one embedding, in every format and under load.

use serde_json::{Value, json};
use wf_engine::{KvCapacity, RunOptions};
use wf_server::{Limits, ServerOptions, router};

use crate::support::{CHAT, app, ask, call, frontend, open, options, post, rejection, server};

const EMBED: &str = "/v1/embeddings";

fn texts() -> Vec<String> {
    let text = |i: usize| format!("The cat number {i} sat on the mat. ").repeat(1 + i % 5);
    (0..20).map(text).collect()
}

/// The numbers of a vector, by their bits.
fn bits(vector: &Value) -> Vec<u32> {
    let number = |value: &Value| (value.as_f64().unwrap() as f32).to_bits();
    vector.as_array().unwrap().iter().map(number).collect()
}

fn vectors(answer: &Value) -> Vec<Vec<u32>> {
    let data = answer["data"].as_array().unwrap();
    for (at, item) in data.iter().enumerate() {
        assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(at)));
    }
    data.iter().map(|item| bits(&item["embedding"])).collect()
}

#[tokio::test]
async fn texts_and_their_tokens_have_the_same_vectors_one_by_one_and_together() {
    let server = server();
    let together = ask(&server, EMBED, &json!({"model": "demo", "input": texts()})).await;
    assert_eq!((&together["object"], &together["model"]), (&json!("list"), &json!("demo")));
    let mut tokens = Vec::new();
    for (text, vector) in texts().iter().zip(vectors(&together)) {
        let alone = ask(&server, EMBED, &json!({"input": text})).await;
        assert_eq!(vectors(&alone), std::slice::from_ref(&vector));
        let tokenized = json!({"prompt": text, "add_special_tokens": true});
        let tokenized = ask(&server, "/tokenize", &tokenized).await;
        let by_ids = ask(&server, EMBED, &json!({"input": tokenized["tokens"]})).await;
        assert_eq!(vectors(&by_ids), [vector]);
        assert_eq!(by_ids["usage"]["prompt_tokens"], tokenized["count"]);
        tokens.push(tokenized["tokens"].clone());
    }
    let by_ids = ask(&server, EMBED, &json!({"input": tokens})).await;
    assert_eq!(by_ids["data"], together["data"]);
    let count: usize = tokens.iter().map(|ids| ids.as_array().unwrap().len()).sum();
    assert_eq!(together["usage"], json!({"prompt_tokens": count, "total_tokens": count}));
}

#[tokio::test]
async fn base64_is_the_bytes_of_the_numbers() {
    let server = server();
    let request = |format: &str| json!({"input": ["a cat", "a dog"], "encoding_format": format});
    let numbers = ask(&server, EMBED, &request("float")).await;
    let coded = ask(&server, EMBED, &request("base64")).await;
    for (numbers, coded) in vectors(&numbers).iter().zip(coded["data"].as_array().unwrap()) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        assert_eq!(decoded(coded["embedding"].as_str().unwrap()), bytes);
    }
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').chars() {
        bits = bits << 6 | letters.find(letter).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[tokio::test]
async fn chats_beside_it_change_nothing() {
    let server = server();
    let body = json!({"input": texts()});
    let quiet = ask(&server, EMBED, &body).await;
    let chat = json!({"messages": [{"role": "user", "content": "Tell me of the cat"}],
                      "max_tokens": 60, "ignore_eos": true, "temperature": 0});
    let (one, vectors, two) = tokio::join!(
        ask(&server, CHAT, &chat),
        ask(&server, EMBED, &body),
        ask(&server, CHAT, &chat)
    );
    assert_eq!(vectors, quiet);
    assert_eq!(one["choices"], two["choices"]);
}

#[tokio::test]
async fn a_short_queue_is_enough_for_many_texts() {
    let kv_capacity = KvCapacity::Contexts { count: 1, max_bytes: None };
    let small = RunOptions { max_running: 2, max_waiting: 1, kv_capacity, ..RunOptions::default() };
    let small = router(&app(options(), open(&small)));
    let body = json!({"input": texts()});
    assert_eq!(ask(&small, EMBED, &body).await, ask(&server(), EMBED, &body).await);
}

#[tokio::test]
async fn a_vector_can_be_shorter_and_of_other_states() {
    let server = server();
    let vector = async |more: Value| {
        let mut body = json!({"input": "A dog and a cat went to the park"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = ask(&server, EMBED, &body).await;
        answer["data"][0]["embedding"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    let whole = vector(json!({})).await;
    assert_eq!(whole.len(), frontend().embedding_len());
    assert_eq!(vector(json!({"pooling": "last", "dimensions": whole.len()})).await, whole);
    let mean = vector(json!({"pooling": "mean"})).await;
    assert_ne!(mean, whole);
    assert_ne!(vector(json!({"pooling": "cls"})).await, mean);
    let short = vector(json!({"dimensions": 8})).await;
    assert_eq!(short.len(), 8);
    for vector in [whole, mean, short] {
        let square: f64 = vector.iter().map(|value| value * value).sum();
        assert!((square - 1.0).abs() < 1e-5, "{square}");
    }
}

#[tokio::test]
async fn invalid_embedding_inputs_are_named() {
    let limits = Limits { embedding_inputs: 4, ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend()));
    let longer = frontend().context_len() + 1;
    let invalid = "invalid_value";
    for (body, code, field) in [
        (json!({}), invalid, "input"),
        (json!({"input": ""}), invalid, "input"),
        (json!({"input": []}), invalid, "input"),
        (json!({"input": ["a", "b", ""]}), invalid, "input[2]"),
        (json!({"input": [[1], []]}), invalid, "input[1]"),
        (json!({"input": vec!["a"; 5]}), invalid, "input"),
        (json!({"input": [1, 8192]}), invalid, "input"),
        (json!({"input": [[1], [2], [8192]]}), invalid, "input[2]"),
        (json!({"input": [-1]}), invalid, "input[0]"),
        (json!({"input": 7}), invalid, "input"),
        (json!({"input": vec![1; longer]}), "context_length_exceeded", "input"),
        (json!({"input": [vec![1], vec![1; longer]]}), "context_length_exceeded", "input[1]"),
        (json!({"input": ["a", "so ".repeat(longer)]}), "context_length_exceeded", "input[1]"),
        (json!({"input": "a", "dimensions": 0}), invalid, "dimensions"),
        (json!({"input": "a", "dimensions": 100_000}), invalid, "dimensions"),
        (json!({"input": "a", "pooling": "max"}), invalid, "pooling"),
        (json!({"input": "a", "encoding_format": "int8"}), invalid, "encoding_format"),
        (json!({"input": "a", "normalize": false}), "unsupported_parameter", "normalize"),
        (json!({"input": "a", "inptu": "b"}), "unknown_parameter", "inptu"),
        (json!({"input": "a", "model": "gpt-4"}), "model_not_found", "model"),
    ] {
        let found = rejection(&server, post(EMBED, body.to_string())).await;
        let (status, found_code, param) = &found;
        assert!(matches!(status, 400 | 404), "{body:.80}: {found:?}");
        assert_eq!((found_code.as_str(), param), (code, &json!(field)), "{body:.80}");
    }
    let harmless = json!({"input": vec!["a"; 4], "user": "u", "normalize": true, "pooling": null});
    ask(&server, EMBED, &harmless).await;
    let whole = json!({"input": vec![1; longer - 1]});
    assert_eq!(ask(&server, EMBED, &whole).await["usage"]["prompt_tokens"], longer - 1);
}

#[tokio::test]
async fn ollama_gets_the_same_vectors() {
    let server = server();
    let ours = ask(&server, EMBED, &json!({"input": texts()})).await;
    let body = json!({"model": "demo:latest", "input": texts(), "keep_alive": "5m",
                      "options": {"num_ctx": 512}});
    let theirs = ask(&server, "/api/embed", &body).await;
    let embeddings: Vec<_> = theirs["embeddings"].as_array().unwrap().iter().map(bits).collect();
    assert_eq!(embeddings, vectors(&ours));
    assert_eq!(theirs["prompt_eval_count"], ours["usage"]["prompt_tokens"]);
    let one = ask(&server, "/api/embed", &json!({"input": texts()[0], "dimensions": 8})).await;
    assert_eq!(one["embeddings"][0].as_array().unwrap().len(), 8);
    let before = ask(&server, "/api/embeddings", &json!({"prompt": texts()[0]})).await;
    assert_eq!(bits(&before["embedding"]), embeddings[0]);

    assert_eq!(ask(&server, "/api/embed", &json!({})).await["embeddings"], json!([]));
    assert_eq!(ask(&server, "/api/embeddings", &json!({})).await, json!({"embedding": []}));
    let long = "so ".repeat(frontend().context_len() + 1);
    let cut = ask(&server, "/api/embed", &json!({"input": long})).await;
    assert_eq!(cut["prompt_eval_count"], frontend().context_len());
    let whole = json!({"input": long, "truncate": false});
    let (status, refused) = call(&server, post("/api/embed", whole.to_string())).await;
    assert_eq!(status, 400);
    assert!(refused["error"].as_str().unwrap().starts_with("input[0] has "), "{refused}");
}
