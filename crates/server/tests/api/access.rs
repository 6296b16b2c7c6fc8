//! Access: keys, hosts, origins, request ids.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_engine::{Frontend, KvCapacity, RunOptions};
use wf_server::{App, Hosts, Key, Keys, PUBLIC, ServerOptions, router};

use crate::support::{
    CHAT, COMPLETE, METHODS, app, bytes, call, concrete, frontend, get, open, options, post,
    rejection, server, with_key,
};

fn guarded() -> axum::Router {
    let keys = Keys::new(["secret", "other"]);
    router(&app(ServerOptions { keys, ..options() }, frontend()))
}

async fn paths() -> Vec<String> {
    let (_, document) = call(&server(), get("/openapi.json")).await;
    let documented = document["paths"].as_object().unwrap().keys();
    let others = ["/", "/docs", "/openapi.json", "/get_server_info", "/get_model_info", "/none"];
    documented.map(|path| concrete(path)).chain(others.map(String::from)).collect()
}

#[tokio::test]
async fn only_public_paths_need_no_key() {
    let server = guarded();
    for path in paths().await {
        for method in METHODS {
            let request = Request::builder().method(method.clone()).uri(&path);
            let request = request.header("host", "localhost").body(Body::empty()).unwrap();
            let status = server.clone().oneshot(request).await.unwrap().status().as_u16();
            let is_public = PUBLIC.contains(&path.as_str());
            assert_eq!(status == 401, !is_public, "{method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn no_way_of_writing_a_path_gets_past_the_keys() {
    let server = guarded();
    for trick in [
        "/health/../v1/models",
        "/health/%2e%2e/v1/models",
        "//v1/models",
        "/./v1/models",
        "/v1//models",
        "/v1/models/",
        "/V1/models",
        "/v1/models?x=/health",
        "/v1/models;/health",
        "/health;/v1/models",
        "/health/x/",
        "/health%2f",
        "/health%00",
        "/%68ealth",
        "/v1/models%3f/health",
        "/v1/models/%2e%2e/%2e%2e/health",
        "/metrics#/health",
        "http://localhost/v1/models",
    ] {
        let request = Request::get(trick).header("host", "localhost").body(Body::empty());
        let Ok(request) = request else { continue };
        let status = server.clone().oneshot(request).await.unwrap().status();
        assert_eq!(status, 401, "{trick}");
    }
}

#[tokio::test]
async fn base_urls_may_end_in_a_slash_or_have_the_version_twice_or_not_at_all() {
    let server = guarded();
    for path in ["/v1/models/", "//v1//models", "/models", "/v1/v1/models"] {
        let (status, models) = call(&server, with_key(get(path), "secret")).await;
        assert_eq!((status, &models["data"][0]["id"]), (200, &json!("demo")), "{path}");
    }
    for path in ["/health/", "/v1/health"] {
        assert_eq!(call(&server, get(path)).await.0, 200, "public, however it is written: {path}");
    }
    let (status, error) = call(&server, with_key(get("/v2/models"), "secret")).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn a_key_opens_everything() {
    let server = guarded();
    for key in ["secret", "other"] {
        let (status, models) = call(&server, with_key(get("/v1/models"), key)).await;
        assert_eq!((status, &models["data"][0]["id"]), (200, &json!("demo")));
    }
    let response = server.clone().oneshot(with_key(get("/v1/models"), "Secret")).await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    let error: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    assert_eq!(error["error"]["code"], "invalid_api_key");
    assert!(!error.to_string().contains("Secret"));
}

#[tokio::test]
async fn callers_with_different_keys_share_no_cache() {
    let server = guarded();
    let body = json!({"prompt": vec![77; 200], "max_tokens": 2, "temperature": 0}).to_string();
    let ask = async |key: &str| {
        let (status, answer) = call(&server, with_key(post(COMPLETE, body.clone()), key)).await;
        assert_eq!(status, 200);
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        (cached, answer["choices"].clone())
    };
    let first = ask("secret").await;
    let (cached, choices) = ask("other").await;
    assert_eq!((first.0, cached), (0, 0));
    assert_eq!(first.1, choices);
    assert!(ask("secret").await.0 >= 192);
}

#[tokio::test]
async fn other_hosts_and_origins_are_rejected() {
    let server = server();
    let mut request = get("/v1/models");
    request.headers_mut().insert("host", "evil.example".parse().unwrap());
    assert_eq!(rejection(&server, request).await.0, 421);
    let mut request = post(CHAT, "{}");
    request.headers_mut().insert("origin", "http://evil.example".parse().unwrap());
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 403);
    assert!(!response.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn allowed_origins_get_cors_headers() {
    let hosts = Hosts { origins: vec!["https://chat.example".into()], ..options().hosts };
    let keys = Keys::new(["secret"]);
    let server = router(&app(ServerOptions { hosts, keys, ..options() }, frontend()));
    let mut preflight = Request::options(CHAT).header("host", "localhost").body(Body::empty());
    let origin = "https://chat.example".parse().unwrap();
    preflight.as_mut().unwrap().headers_mut().insert("origin", origin);
    let names = "authorization, x-stainless-lang, anthropic-version";
    let requested = ("access-control-request-headers", names.parse().unwrap());
    preflight.as_mut().unwrap().headers_mut().insert(requested.0, requested.1);
    let response = server.clone().oneshot(preflight.unwrap()).await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["access-control-allow-origin"], "https://chat.example");
    assert_eq!(response.headers()["access-control-allow-headers"], names);
    let methods = response.headers()["access-control-allow-methods"].to_str().unwrap();
    assert_eq!(methods, "GET,POST,DELETE", "files and batches can be deleted");
    let mut request = get("/v1/models");
    request.headers_mut().insert("origin", "https://chat.example".parse().unwrap());
    let response = server.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 401, "asking beforehand is no key");
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let server = server();
    let mut request = get("/v1/models");
    request.headers_mut().insert("x-request-id", "my-request.1".parse().unwrap());
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["x-request-id"], "my-request.1");
    let response = server.clone().oneshot(get("/none")).await.unwrap();
    assert_eq!(response.headers()["x-request-id"].len(), 32);
    let mut request = post(
        CHAT,
        json!({"messages": [{"role": "user", "content": "x"}],
                                        "max_tokens": 1})
        .to_string(),
    );
    request.headers_mut().insert("x-request-id", "abc".parse().unwrap());
    assert_eq!(call(&server, request).await.1["id"], "chatcmpl-abc");
}

#[tokio::test]
async fn unlisted_names_of_a_model_are_accepted() {
    let server = server();
    let models = call(&server, get("/v1/models")).await.1;
    assert_eq!(models["data"].as_array().unwrap().len(), 2, "aliases are not listed");
    for (name, expected) in [("demo", 200), ("alias", 200), ("gpt-4", 404)] {
        let body = json!({"model": name, "prompt": "a", "max_tokens": 1}).to_string();
        let (status, response) = call(&server, post(COMPLETE, body)).await;
        assert_eq!(status, expected, "{name}");
        assert!(status != 200 || response["model"] == "demo");
        let message = response["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 200 || message.contains("--served-model-name"), "{message}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected() {
    let server = server();
    assert_eq!(rejection(&server, get("/v1/chat")).await.0, 404);
    assert_eq!(rejection(&server, get(CHAT)).await.0, 405);
    let long = format!("/{}", "x".repeat(8191));
    assert_eq!(rejection(&server, get(&long)).await.0, 404);
    assert_eq!(rejection(&server, get(&format!("{long}x"))).await.0, 414);
    let (status, code, param) = rejection(&server, get("/v1/models/nobody")).await;
    assert_eq!((status, code.as_str(), param.as_str()), (404, "model_not_found", Some("model")));
}

#[tokio::test]
async fn a_server_without_a_model_is_loading() {
    let server = router(&App::new(options()));
    for request in [get("/health"), get("/v1/models"), post(CHAT, "{}"), get("/props")] {
        let (status, code, _) = rejection(&server, request).await;
        assert_eq!((status, code.as_str()), (503, "loading"));
    }
    let response = server.oneshot(get("/livez")).await.unwrap();
    assert_eq!(response.status(), 200);
}

/// A model of its own: others need their cached prompts.
fn own_frontend() -> Frontend {
    let kv_capacity = KvCapacity::Contexts { count: 1, max_bytes: None };
    open(&RunOptions { threads: 1, kv_capacity, ..RunOptions::default() })
}

/// A server with keys of two users and of an operator, and a stream of the first user.
async fn with_stream_of_alice() -> (axum::Router, axum::http::Response<Body>) {
    let keys = Keys::from_keys([Key::new("alice"), Key::new("bob"), Key::admin("root")]);
    let server = router(&app(ServerOptions { keys, ..options() }, own_frontend()));
    let body = json!({"prompt": [5, 6], "max_tokens": 500, "ignore_eos": true, "stream": true});
    let stream = with_key(post(COMPLETE, body.to_string()), "alice");
    let stream = server.clone().oneshot(stream).await.unwrap();
    assert_eq!(stream.status(), 200);
    (server, stream)
}

#[tokio::test]
async fn sequences_are_shown_to_their_caller_and_to_operators() {
    let (server, _stream) = with_stream_of_alice().await;
    for (key, count) in [("alice", 1), ("bob", 0), ("root", 1)] {
        let (status, slots) = call(&server, with_key(get("/slots"), key)).await;
        assert_eq!((status, slots.as_array().unwrap().len()), (200, count), "{key}");
    }
}

#[tokio::test]
async fn only_operators_flush_the_cache_and_see_paths() {
    let (server, _stream) = with_stream_of_alice().await;
    let (status, code, _) = rejection(&server, with_key(post("/flush_cache", ""), "bob")).await;
    assert_eq!((status, code.as_str()), (403, "admin_key_required"));
    let flush = with_key(post("/flush_cache", ""), "root");
    assert_eq!(server.clone().oneshot(flush).await.unwrap().status(), 200);
    for path in ["/props", "/server_info", "/get_server_info", "/model_info", "/get_model_info"] {
        let model_path = async |key| {
            let (status, info) = call(&server, with_key(get(path), key)).await;
            assert_eq!(status, 200);
            info["model_path"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (model_path("bob").await.as_str(), model_path("root").await.as_str()),
            ("demo", "demo.gguf")
        );
    }
}

#[tokio::test]
async fn an_open_server_trusts_its_own_machine_only() {
    let flush = async |options: ServerOptions| {
        let server = router(&app(options, own_frontend()));
        server.oneshot(post("/flush_cache", "")).await.unwrap().status().as_u16()
    };
    assert_eq!(flush(options()).await, 200);
    let hosts = Hosts { bound: Some(([0, 0, 0, 0], 30000).into()), ..Hosts::default() };
    assert_eq!(flush(ServerOptions { hosts, ..options() }).await, 403);
    let keys = Keys::from_keys([Key::admin("root")]);
    assert_eq!(flush(ServerOptions { keys, ..options() }).await, 403);
    // Everyone behind a proxy would be on its machine.
    let proxies = vec!["unix".parse().unwrap()];
    assert_eq!(flush(ServerOptions { proxies, ..options() }).await, 403);
}

#[tokio::test]
async fn whom_a_proxy_forwards_is_no_operator() {
    let server = router(&app(options(), own_frontend()));
    for (header, value) in
        [("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1"), ("x-real-ip", "::1")]
    {
        let mut request = post("/flush_cache", "");
        request.headers_mut().insert(header, value.parse().unwrap());
        let (status, code, _) = rejection(&server, request).await;
        assert_eq!((status, code.as_str()), (403, "admin_key_required"), "{header}");
    }
    assert_eq!(server.oneshot(post("/flush_cache", "")).await.unwrap().status(), 200);
}
