//! Several models in one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_engine::RunOptions;
use wf_server::{
    App, Description, Key, Keys, Limits, ListedModel, Listing, ServedModel, ServerOptions, router,
};

use crate::support::{
    CHAT, COMPLETE, ask, bytes, call, description, get, open, options, post, server, with_key,
};

/// Memory that each model claims.
const SIZE: usize = 100;
/// Room for one model.
const ONE: usize = 150;
/// Room for both.
const BOTH: usize = 200;

fn described(name: &str) -> Description {
    let listing = description(name).listing;
    let listing = Listing { names: vec![name.into()], aliases: Vec::new(), ..listing };
    Description { listing, memory_bytes: SIZE, ..description(name) }
}

fn load(name: &str) -> ServedModel {
    ServedModel::new(open(&RunOptions::default()), described(name))
}

fn listed(
    name: &'static str,
    load: impl Fn() -> Result<ServedModel, String> + Send + Sync + 'static,
) -> ListedModel {
    let listing = described(name).listing;
    ListedModel { listing, memory_bytes: SIZE, load: Box::new(load) }
}

/// A server with the models `a`, which is loaded, and `b`.
fn two(options: ServerOptions, max_memory: usize) -> Router {
    let app = App::new(options);
    let models = ["a", "b"].map(|name| listed(name, move || Ok(load(name))));
    app.set_models(load("a"), models.into(), Some(max_memory));
    router(&app)
}

fn body(model: Option<&str>) -> Value {
    let mut body = json!({"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0});
    if let Some(model) = model {
        body["model"] = model.into();
    }
    body
}

/// Returns the names of the models in memory.
async fn in_memory(server: &Router) -> Vec<String> {
    let (status, answer) = call(server, get("/api/ps")).await;
    assert_eq!(status, 200, "{answer}");
    let models = answer["models"].as_array().unwrap();
    models.iter().map(|model| model["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the models of `/v1/models` with their states.
async fn states(server: &Router) -> Vec<(String, String)> {
    let (_, answer) = call(server, get("/v1/models")).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let cards = answer["data"].as_array().unwrap().iter();
    cards.map(|card| (text(&card["id"]), text(&card["status"]["value"]))).collect()
}

fn pair(a: &str, b: &str) -> Vec<(String, String)> {
    vec![("a".to_owned(), a.to_owned()), ("b".to_owned(), b.to_owned())]
}

/// Lets other tasks run until nothing changes but by a thread.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_choose_a_model_and_the_least_recently_used_leaves() {
    let server = two(options(), ONE);
    assert_eq!(states(&server).await, pair("loaded", "unloaded"));
    assert_eq!(ask(&server, COMPLETE, &body(Some("b"))).await["model"], "b");
    assert_eq!(states(&server).await, pair("unloaded", "loaded"));
    assert_eq!(in_memory(&server).await, ["b"]);
    assert_eq!(ask(&server, COMPLETE, &body(None)).await["model"], "a", "the first is the default");
    assert_eq!(in_memory(&server).await, ["a"]);
    let (status, answer) = call(&server, post(COMPLETE, body(Some("c")).to_string())).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(status, 404);
    assert!(message.contains("a, b") && message.contains("--served-model-name"), "{message}");
    let (_, tags) = call(&server, get("/api/tags")).await;
    assert_eq!(tags["models"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn models_side_by_side_answer_as_alone() {
    let (both, alone) = (two(options(), BOTH), server());
    let expected = ask(&alone, COMPLETE, &body(None)).await["choices"][0]["text"].clone();
    let requests = ["a", "b", "b", "a", "b", "a"].map(|name| (name, body(Some(name))));
    let answers =
        requests.iter().map(async |(name, body)| (name, ask(&both, COMPLETE, body).await));
    for (name, answer) in join_all(answers).await {
        assert_eq!((&answer["model"], &answer["choices"][0]["text"]), (&json!(name), &expected));
    }
    assert_eq!(in_memory(&both).await, ["a", "b"], "both fit");
}

#[tokio::test]
async fn a_model_stays_while_it_has_a_request_in_flight() {
    let server = two(options(), ONE);
    let mut long = body(Some("a"));
    long["stream"] = true.into();
    let stream = server.clone().oneshot(post(COMPLETE, long.to_string())).await.unwrap();
    assert_eq!(stream.status(), 200);
    let other = tokio::spawn({
        let server = server.clone();
        async move { ask(&server, COMPLETE, &body(Some("b"))).await }
    });
    settle().await;
    assert_eq!(in_memory(&server).await, ["a"], "its stream is not at its end");
    // It is to leave, so a new request for it comes after the one that waits.
    let again = tokio::spawn({
        let server = server.clone();
        async move { ask(&server, COMPLETE, &body(Some("a"))).await }
    });
    settle().await;
    assert!(!other.is_finished() && !again.is_finished());
    assert!(!bytes(stream).await.is_empty());
    assert_eq!(other.await.unwrap()["model"], "b");
    assert_eq!(again.await.unwrap()["model"], "a");
    assert_eq!(in_memory(&server).await, ["a"]);
}

/// A server whose model `b` fails to load at first.
fn failing_once(options: ServerOptions) -> Router {
    let app = App::new(options);
    let attempts = AtomicUsize::new(0);
    let b = listed("b", move || match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => Err("/secret/b.gguf is cut".to_owned()),
        _ => Ok(load("b")),
    });
    app.set_models(load("a"), vec![listed("a", || Ok(load("a"))), b], Some(BOTH));
    router(&app)
}

#[tokio::test]
async fn a_load_that_fails_is_an_error_of_its_request_only() {
    let server = failing_once(options());
    let (status, answer) = call(&server, post(COMPLETE, body(Some("b")).to_string())).await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!("model_load_failed")));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("model b") && message.contains("is cut"), "for operators: {message}");
    assert_eq!(ask(&server, COMPLETE, &body(Some("a"))).await["model"], "a");
    assert_eq!(ask(&server, COMPLETE, &body(Some("b"))).await["model"], "b", "the next one tries");
}

#[tokio::test]
async fn the_reason_of_a_failed_load_is_for_operators() {
    let server = failing_once(ServerOptions { keys: Keys::new(["key"]), ..options() });
    let request = with_key(post(COMPLETE, body(Some("b")).to_string()), "key");
    let (status, answer) = call(&server, request).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(status, 500);
    assert!(message.contains("model b") && !message.contains("secret"), "{message}");
}

/// A server whose model `b` is loaded when a message says how it goes, with signs of life at once.
fn slow() -> (Router, Sender<Result<(), String>>) {
    let limits = Limits { keep_alive: Duration::from_millis(1), ..Limits::default() };
    let app = App::new(ServerOptions { limits, ..options() });
    let (sender, receiver) = channel::<Result<(), String>>();
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    let b = listed("b", move || receiver.lock().unwrap().recv().unwrap().map(|()| load("b")));
    app.set_models(load("a"), vec![listed("a", || Ok(load("a"))), b], Some(BOTH));
    (router(&app), sender)
}

async fn begin(server: &Router, path: &str, body: &Value) -> Response<Body> {
    let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

fn chat(stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    json!({"model": "b", "messages": messages, "max_tokens": 3, "stream": stream})
}

#[tokio::test]
async fn streams_have_signs_of_life_while_their_model_loads() {
    let (server, loads) = slow();
    let response = begin(&server, CHAT, &chat(true)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    loads.send(Ok(())).unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    assert!(text.starts_with(": the model is loading\n\n"), "{text}");
    assert!(text.contains("chat.completion.chunk") && text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[tokio::test]
async fn streams_report_a_load_that_fails() {
    for (path, expected) in [
        (CHAT, "\"code\":\"model_load_failed\""),
        ("/v1/messages", "event: error"),
        ("/v1/responses", "event: error"),
        ("/api/chat", "{\"error\":\"model b cannot be loaded"),
    ] {
        let (server, loads) = slow();
        let mut request = chat(true);
        match path {
            "/v1/responses" => request = json!({"model": "b", "input": "Hello", "stream": true}),
            "/api/chat" => drop(request.as_object_mut().unwrap().remove("max_tokens")),
            _ => {}
        }
        let response = begin(&server, path, &request).await;
        loads.send(Err("it is cut".to_owned())).unwrap();
        let text = String::from_utf8(bytes(response).await).unwrap();
        assert!(text.contains(expected), "{path}: {text}");
        assert_eq!(ask(&server, COMPLETE, &body(Some("a"))).await["model"], "a");
    }
}

#[tokio::test]
async fn a_client_that_leaves_during_a_load_harms_nobody() {
    let (server, loads) = slow();
    drop(begin(&server, CHAT, &chat(true)).await);
    loads.send(Ok(())).unwrap();
    assert_eq!(ask(&server, CHAT, &chat(false)).await["model"], "b");
    assert_eq!(in_memory(&server).await, ["a", "b"]);
}

#[tokio::test]
async fn a_key_sees_and_uses_its_models_only() {
    let keys = ["alice models=b", "bob"].map(|line| Key::parse(line).unwrap());
    let server = two(ServerOptions { keys: Keys::from_keys(keys), ..options() }, BOTH);
    let names = async |key: &str| -> Vec<String> {
        let (_, answer) = call(&server, with_key(get("/v1/models"), key)).await;
        let cards = answer["data"].as_array().unwrap().iter();
        cards.map(|card| card["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("alice").await, ["b"]);
    assert_eq!(names("bob").await, ["a", "b"]);
    let send = async |key: &str, model| {
        call(&server, with_key(post(COMPLETE, body(model).to_string()), key)).await
    };
    assert_eq!(send("alice", None).await.1["model"], "b", "her first model is her default");
    let (status, answer) = send("alice", Some("a")).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("model_not_found")));
    assert!(!answer["error"]["message"].as_str().unwrap().contains("has a"));
    assert_eq!(send("bob", Some("a")).await.0, 200);
}

#[tokio::test]
async fn facts_about_a_model_stay_known_when_it_has_left() {
    let server = two(options(), ONE);
    let (_, props) = call(&server, get("/props?model=b")).await;
    assert_eq!(props["model_names"], json!(["b"]));
    assert_eq!(in_memory(&server).await, ["b"], "it was loaded to describe it");
    let (_, props) = call(&server, get("/props")).await;
    assert_eq!(props["model_names"], json!(["a"]));
    let show = ask(&server, "/api/show", &json!({"model": "a:latest"})).await;
    assert_eq!(show["modelfile"], "FROM a\n");
    ask(&server, "/api/pull", &json!({"name": "a"})).await;
    assert_eq!(in_memory(&server).await, ["b"], "nothing of this needs the model");
}

#[tokio::test]
async fn metrics_tell_models_apart() {
    let server = two(options(), ONE);
    ask(&server, COMPLETE, &body(Some("b"))).await;
    let response = server.clone().oneshot(get("/metrics")).await.unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    for line in [
        "wf:model_loaded{model=\"a\"} 0",
        "wf:model_loaded{model=\"b\"} 1",
        "wf:model_loads_total{model=\"b\"} 1",
        "wf:model_evictions_total{model=\"a\"} 1",
        "wf:model_generation_tokens_total{model=\"b\"} 4",
        "wf:generation_tokens_total 4",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let response = crate::support::server().oneshot(get("/metrics")).await.unwrap();
    let alone = String::from_utf8(bytes(response).await).unwrap();
    assert!(!alone.contains("{model="), "one model has no label");
}
