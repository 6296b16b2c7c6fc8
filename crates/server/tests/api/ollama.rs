//! Ollama's API generates the same text as OpenAI's.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_server::{App, Keys, ServerOptions, router};

use crate::support::{
    CHAT, COMPLETE, app, ask, bytes, call, frontend, get, options, post, server, with_key,
};

const OLLAMA_CHAT: &str = "/api/chat";
const OLLAMA_GENERATE: &str = "/api/generate";

fn story() -> Value {
    json!({"model": "demo", "stream": false, "options": {"temperature": 0, "num_predict": 24},
           "messages": [{"role": "user", "content": "Tell me a story about a cat"}]})
}

fn with_option(name: &str, value: Value) -> Value {
    let mut body = story();
    body["options"][name] = value;
    body
}

/// The message of a rejection, which must be in Ollama's form.
async fn rejection(server: &axum::Router, request: Request<Body>) -> (u16, String) {
    let (status, answer) = call(server, request).await;
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    (status, answer["error"].as_str().unwrap().to_owned())
}

/// The lines of a stream.
async fn lines(server: &axum::Router, path: &str, mut body: Value) -> Vec<Value> {
    body.as_object_mut().unwrap().remove("stream");
    let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = String::from_utf8(bytes(response).await).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_chat_is_that_of_chat_completions_whole_and_in_lines() {
    let server = server();
    let openai = json!({"messages": story()["messages"], "max_tokens": 24, "temperature": 0});
    let openai = ask(&server, CHAT, &openai).await;
    let answer = ask(&server, OLLAMA_CHAT, &story()).await;
    let text = &openai["choices"][0]["message"]["content"];
    assert_eq!(answer["message"], json!({"role": "assistant", "content": text}));
    assert_eq!((&answer["done"], &answer["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!(answer["prompt_eval_count"], openai["usage"]["prompt_tokens"]);
    assert_eq!(answer["eval_count"], 24);
    let ns = |field: &str| answer[field].as_u64().unwrap();
    let parts = ns("prompt_eval_duration") + ns("eval_duration");
    assert!(ns("total_duration") >= parts && parts > 1000, "{answer}");

    let lines = lines(&server, OLLAMA_CHAT, story()).await;
    let (end, parts) = lines.split_last().unwrap();
    assert!(parts.len() > 10 && parts.iter().all(|part| part["done"] == false));
    let streamed: String =
        lines.iter().map(|l| l["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(streamed, text.as_str().unwrap());
    assert_eq!((&end["done"], &end["eval_count"]), (&json!(true), &json!(24)));
    assert!(parts.iter().all(|part| part.get("eval_count").is_none()));
}

#[tokio::test]
async fn generate_answers_or_continues_a_text() {
    let server = server();
    let openai = json!({"max_tokens": 24, "temperature": 0,
        "messages": [{"role": "system", "content": "Be kind"},
                     {"role": "user", "content": "Tell me a story"}]});
    let openai = ask(&server, CHAT, &openai).await;
    let body = json!({"prompt": "Tell me a story", "system": "Be kind", "stream": false,
                      "options": {"temperature": 0, "num_predict": 24}});
    let answer = ask(&server, OLLAMA_GENERATE, &body).await;
    assert_eq!(answer["response"], openai["choices"][0]["message"]["content"]);
    let lines = lines(&server, OLLAMA_GENERATE, body).await;
    let streamed: String = lines.iter().map(|line| line["response"].as_str().unwrap()).collect();
    assert_eq!(streamed, answer["response"].as_str().unwrap());

    let openai = json!({"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0});
    let openai = ask(&server, COMPLETE, &openai).await;
    let raw = json!({"prompt": "Once upon a time", "raw": true, "stream": false,
                     "options": {"temperature": 0, "num_predict": 24}});
    let answer = ask(&server, OLLAMA_GENERATE, &raw).await;
    assert_eq!(answer["response"], openai["choices"][0]["text"]);
}

#[tokio::test]
async fn options_have_ollamas_meaning() {
    let server = server();
    let greedy = ask(&server, OLLAMA_CHAT, &story()).await;
    let text = greedy["message"]["content"].as_str().unwrap();
    let stop = text.split_whitespace().nth(4).unwrap();
    let stopped = ask(&server, OLLAMA_CHAT, &with_option("stop", json!([stop]))).await;
    assert_eq!(stopped["done_reason"], "stop");
    assert_eq!(stopped["message"]["content"], text[..text.find(stop).unwrap()]);
    for harmless in ["num_ctx", "num_thread", "num_gpu"] {
        let same = ask(&server, OLLAMA_CHAT, &with_option(harmless, json!(8))).await;
        assert_eq!(same["message"], greedy["message"]);
    }
    let penalized = |last_n: i64| {
        let mut body = with_option("repeat_penalty", json!(5.0));
        body["options"]["repeat_last_n"] = json!(last_n);
        body
    };
    let none = ask(&server, OLLAMA_CHAT, &penalized(0)).await;
    assert_eq!(none["message"], greedy["message"], "0 considers no token");
    let all = ask(&server, OLLAMA_CHAT, &penalized(-1)).await;
    let last = ask(&server, OLLAMA_CHAT, &penalized(2)).await;
    assert!(all["message"] != greedy["message"] && all["message"] != last["message"]);
    let all = with_option("num_predict", json!(1_000_000_000_000_u64));
    let all = ask(&server, OLLAMA_CHAT, &all).await;
    assert!(all["message"]["content"].as_str().unwrap().starts_with(text));
    assert!(all["eval_count"].as_u64().unwrap() < 2048);
    let drawn = |seed: i64| {
        let mut body = with_option("temperature", json!(1.0));
        body["options"]["seed"] = json!(seed);
        body
    };
    let (once, again) = (ask(&server, OLLAMA_CHAT, &drawn(5)).await, drawn(5));
    assert_eq!(once["message"], ask(&server, OLLAMA_CHAT, &again).await["message"]);
    assert_ne!(once["message"], greedy["message"]);
}

#[tokio::test]
async fn invalid_fields_are_named() {
    let server = server();
    let image = json!([{"role": "user", "content": "x", "images": ["aGk="]}]);
    let long = json!([{"role": "user", "content": "x ".repeat(3000)}]);
    for (field, value, says) in [
        ("tools", json!([{"type": "function"}]), "tools[0].function: must be an object"),
        ("format", json!("yaml"), "format: must be \"json\" or a JSON schema"),
        ("think", json!("often"), "think: must be one of none, minimal, low"),
        ("messages", image, "messages[0].images: images are not supported"),
        ("messages", long, "the prompt has "),
        ("option", json!({}), "unknown field \"option\""),
    ] {
        let mut body = story();
        body[field] = value;
        let (status, message) = rejection(&server, post(OLLAMA_CHAT, body.to_string())).await;
        assert!(status == 400 && message.starts_with(says), "{field}: {message}");
    }
    for (option, value, says) in [
        ("temperature", json!(-1), "temperature"),
        ("repeat_penalty", json!(0), "repeat_penalty"),
        ("repeat_last_n", json!(-2), "repeat_last_n is -2: must be at least -1"),
        ("repeat_last_n", json!("x"), "options.repeat_last_n: expected an integer"),
        ("mirostat", json!(2), "mirostat is only supported as 0"),
        ("temprature", json!(1), "unknown field \"temprature\""),
        ("num_predict", json!("x"), "options"),
    ] {
        let body = with_option(option, value).to_string();
        let (status, message) = rejection(&server, post(OLLAMA_CHAT, body)).await;
        assert!(status == 400 && message.starts_with(says), "{option}: {message}");
    }
    let mut named = story();
    named["model"] = json!("demo:latest");
    ask(&server, OLLAMA_CHAT, &named).await;
    named["model"] = json!("llama3:latest");
    assert_eq!(rejection(&server, post(OLLAMA_CHAT, named.to_string())).await.0, 404);
    assert_eq!(rejection(&server, get("/api/none")).await.0, 404);
    let loading = router(&App::new(options()));
    assert_eq!(rejection(&loading, get("/api/tags")).await.0, 503);
}

#[tokio::test]
async fn a_model_can_be_asked_for_before_there_is_anything_to_say() {
    let server = server();
    for (path, field) in [(OLLAMA_CHAT, "message"), (OLLAMA_GENERATE, "response")] {
        let answer = ask(&server, path, &json!({"model": "demo", "keep_alive": "5m"})).await;
        assert_eq!((&answer["done"], &answer["done_reason"]), (&json!(true), &json!("load")));
        assert!(answer.get(field).is_some());
    }
}

#[tokio::test]
async fn models_are_described() {
    let server = server();
    let (_, tags) = call(&server, get("/api/tags")).await;
    let names: Vec<&Value> =
        tags["models"].as_array().unwrap().iter().map(|model| &model["model"]).collect();
    assert_eq!(names, ["demo", "other-name"]);
    assert_eq!(tags["models"][0]["digest"], "0123456789abcdef");
    assert_eq!(tags["models"][0]["size"], 18_264_544);
    assert_eq!(tags["models"][0]["details"]["format"], "gguf");
    assert!(tags["models"][0].get("expires_at").is_none());
    let (_, ps) = call(&server, get("/api/ps")).await;
    assert_eq!(ps["models"][0]["context_length"], 2048);
    assert_eq!(ps["models"][0]["expires_at"], "9999-12-31T23:59:59Z");
    let shown = ask(&server, "/api/show", &json!({"model": "demo"})).await;
    let size = shown["details"]["parameter_size"].as_str().unwrap();
    assert!(size.ends_with('M') && size.trim_end_matches('M').parse::<f64>().is_ok(), "{size}");
    assert_eq!(shown["capabilities"], json!(["completion", "tools", "embedding"]));
    for (name, expected) in [("demo:latest", 200), ("nobody", 404)] {
        let request = post("/api/pull", json!({"model": name, "stream": true}).to_string());
        let (status, pulled) = call(&server, request).await;
        assert_eq!(status, expected, "{name}: {pulled}");
        assert!(status != 200 || pulled["status"] == "success");
    }
    assert_eq!(shown["model_info"]["bitnet-b1.58.context_length"], 2048);
    assert!(shown["template"].as_str().unwrap().contains("messages"));
    assert_eq!(rejection(&server, post("/api/show", r#"{"model": "x"}"#)).await.0, 404);
    let (status, version) = call(&server, get("/api/version")).await;
    assert!(status == 200 && version["version"].is_string());
    let keys = Keys::new(["secret"]);
    let guarded = router(&app(ServerOptions { keys, ..options() }, frontend()));
    assert_eq!(rejection(&guarded, get("/api/tags")).await.0, 401);
    assert_eq!(call(&guarded, with_key(get("/api/tags"), "secret")).await.0, 200);
}

#[tokio::test]
async fn logprobs_are_those_of_the_text() {
    let server = server();
    let body = json!({"prompt": "hi", "stream": false, "logprobs": true, "top_logprobs": 3,
                      "options": {"temperature": 0, "num_predict": 4}});
    let answer = ask(&server, "/api/generate", &body).await;
    let logprobs = answer["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), 4, "{answer}");
    assert!(logprobs.iter().all(|one| one["top_logprobs"].as_array().unwrap().len() == 3));
    let plain = json!({"prompt": "hi", "stream": false, "options": {"num_predict": 2}});
    assert!(ask(&server, "/api/generate", &plain).await.get("logprobs").is_none());
    let wrong = json!({"prompt": "hi", "top_logprobs": 3});
    let (status, _) = call(&server, post("/api/generate", wrong.to_string())).await;
    assert_eq!(status, 400);
}
