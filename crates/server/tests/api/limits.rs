//! Limits of API keys and of the queue.

use std::time::Duration;

use axum::Router;
use axum::http::Response;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_engine::{KvCapacity, RunOptions};
use wf_server::{App, Key, Keys, Limits, ServerOptions, router};

use crate::scripted::{PLAIN, Script, Steps, frontend_in_steps};
use crate::support::{
    CHAT, COMPLETE, app, bytes, call, frontend, get, open, options, post, rejection, with_key,
};

fn server(lines: &[&str]) -> (App, Router) {
    let keys = Keys::from_keys(lines.iter().map(|line| Key::parse(line).unwrap()));
    let app = app(ServerOptions { keys, ..options() }, frontend());
    let router = router(&app);
    (app, router)
}

fn body(prompt_len: usize, max_tokens: usize) -> String {
    json!({"prompt": vec![7; prompt_len], "max_tokens": max_tokens, "ignore_eos": true}).to_string()
}

async fn ask(server: &Router, key: &str) -> Response<axum::body::Body> {
    server.clone().oneshot(with_key(post(COMPLETE, body(3, 2)), key)).await.unwrap()
}

fn header(response: &Response<axum::body::Body>, name: &str) -> String {
    response.headers()[name].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn requests_of_a_minute_are_limited() {
    let (_, server) = server(&["alpha requests-per-minute=2", "beta"]);
    let first = ask(&server, "alpha").await;
    assert_eq!(first.status(), 200);
    assert_eq!(header(&first, "x-ratelimit-limit-requests"), "2");
    assert_eq!(header(&first, "x-ratelimit-remaining-requests"), "1");
    assert_eq!(ask(&server, "alpha").await.status(), 200);
    let refused = ask(&server, "alpha").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(header(&refused, "x-ratelimit-remaining-requests"), "0");
    let wait: u32 = header(&refused, "retry-after").parse().unwrap();
    assert!((28..=30).contains(&wait), "{wait}");
    let error: Value = serde_json::from_slice(&bytes(refused).await).unwrap();
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("2 requests a minute") && !message.contains("alpha"), "{message}");
    let other = ask(&server, "beta").await;
    assert_eq!(other.status(), 200, "the limits of one key do not concern another");
    assert!(!other.headers().contains_key("x-ratelimit-limit-requests"));
}

#[tokio::test]
async fn tokens_of_a_minute_are_limited() {
    let (_, server) = server(&["alpha tokens-per-minute=100"]);
    let large = with_key(post(COMPLETE, body(150, 10)), "alpha");
    assert_eq!(call(&server, large).await.0, 200, "what is missing is owed");
    let refused = ask(&server, "alpha").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(header(&refused, "x-ratelimit-remaining-tokens"), "0");
    // 160 tokens of 100: 61 have to come back before one is left.
    let wait: u32 = header(&refused, "retry-after").parse().unwrap();
    assert!((34..=37).contains(&wait), "{wait}");
}

#[tokio::test]
async fn requests_at_once_are_limited_until_they_end() {
    let (_, server) = server(&["alpha requests=1"]);
    let stream = json!({"prompt": [1, 2], "max_tokens": 200, "ignore_eos": true, "stream": true});
    let open = with_key(post(COMPLETE, stream.to_string()), "alpha");
    let open = server.clone().oneshot(open).await.unwrap();
    assert_eq!(open.status(), 200);
    let refused = rejection(&server, with_key(post(COMPLETE, body(3, 2)), "alpha")).await;
    assert_eq!((refused.0, refused.1.as_str()), (429, "concurrency_limit_exceeded"));
    drop(open);
    assert_eq!(ask(&server, "alpha").await.status(), 200, "a client that left has no request");
}

#[tokio::test]
async fn a_share_of_the_cache_is_a_limit_on_the_context() {
    let (_, server) = server(&["alpha kv-share=0.01", "beta"]);
    let kv_tokens = frontend().engine().kv_tokens();
    let too_long = || post(COMPLETE, body(kv_tokens / 50, 2));
    let (status, code, _) = rejection(&server, with_key(too_long(), "alpha")).await;
    assert_eq!((status, code.as_str()), (400, "context_length_exceeded"));
    assert_eq!(call(&server, with_key(too_long(), "beta")).await.0, 200);
    let (status, answer) = call(&server, with_key(post(COMPLETE, body(3, 2)), "alpha")).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn keys_can_be_replaced_while_the_server_runs() {
    let (app, server) = server(&["alpha requests-per-minute=1", "beta"]);
    assert_eq!(ask(&server, "alpha").await.status(), 200);
    let line = |line: &str| Key::parse(line).unwrap();
    app.set_keys(&Keys::from_keys([line("alpha requests-per-minute=2"), line("gamma")]));
    assert_eq!(ask(&server, "gamma").await.status(), 200);
    assert_eq!(ask(&server, "beta").await.status(), 401);
    assert_eq!(ask(&server, "alpha").await.status(), 200);
    assert_eq!(ask(&server, "alpha").await.status(), 429, "what was used before counts");
}

#[tokio::test]
async fn metrics_count_by_name_of_the_key() {
    let (_, server) = server(&["alpha name=alice requests-per-minute=2", "beta name=bob"]);
    for key in ["alpha", "alpha", "alpha", "beta"] {
        ask(&server, key).await;
    }
    let response = server.clone().oneshot(with_key(get("/metrics"), "beta")).await.unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    for line in [
        "wf:key_requests_total{key=\"alice\",status=\"200\"} 2",
        "wf:key_requests_total{key=\"alice\",status=\"429\"} 1",
        "wf:key_prompt_tokens_total{key=\"alice\"} 6",
        "wf:key_generation_tokens_total{key=\"alice\"} 4",
        "wf:key_generation_tokens_total{key=\"bob\"} 2",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("alpha") && !text.contains("beta"));
}

#[tokio::test]
async fn refusals_are_counted_neither_as_aborts_nor_as_errors() {
    let kv_capacity = KvCapacity::Contexts { count: 1, max_bytes: None };
    let frontend =
        open(&RunOptions { threads: 1, kv_capacity, max_waiting: 4, ..RunOptions::default() });
    let server = router(&app(options(), frontend.clone()));
    let prompts =
        |count: usize| json!({"prompt": vec![[5, 6]; count], "max_tokens": 2}).to_string();
    // It could never fit, so the response does not say to try again.
    let response = server.clone().oneshot(post(COMPLETE, prompts(5))).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (400, None));
    let error: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    assert_eq!(error["error"]["code"], "too_many_sequences");
    assert!(error["error"]["message"].as_str().unwrap().contains("room for 4"), "{error}");
    let response = server.clone().oneshot(get("/metrics")).await.unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    assert!(!text.contains("finished_reason"), "{text}");
    assert!(text.contains("wf:cancelled_requests_total 0"), "{text}");
    assert_eq!(call(&server, post(COMPLETE, prompts(4))).await.0, 200);
}

#[tokio::test]
async fn a_stream_is_kept_alive_while_its_prompt_is_read() {
    let script = Script { thinking: None, answer: "Yes." };
    // Each of about 800 tokens is a step of its own, whose event writes nothing and comes long before a keep-alive is due.
    let steps = Steps { max_tokens: 1, time: Duration::from_micros(200) };
    let frontend = frontend_in_steps(script, PLAIN, steps);
    let limits = Limits { keep_alive: Duration::from_millis(10), ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend));
    let content = "many words ".repeat(400);
    let body = json!({"messages": [{"role": "user", "content": content}], "stream": true});
    let response = server.oneshot(post(CHAT, body.to_string())).await.unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    let (before, _) = text.split_once("Yes").unwrap();
    assert!(before.contains(": keep-alive"), "{text}");
}
