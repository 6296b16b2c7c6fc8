//! A server in this process.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use wf_api::sse::{DONE, EventReader};
use wf_engine::{Frontend, KvCapacity, ModelSource, RunOptions, open_model};
use wf_server::{
    App, Description, Hosts, Keys, Limits, Listing, SaltKey, ServedModel, ServerOptions,
    default_sampling, router,
};

/// A model of its own.
pub(crate) fn open(options: &RunOptions) -> Frontend {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../wf/assets/demo.gguf"));
    open_model(&ModelSource::Path(path), options, &mut |_| {}).unwrap().frontend
}

/// The model that most tests share.
pub(crate) fn frontend() -> Frontend {
    static FRONTEND: OnceLock<Frontend> = OnceLock::new();
    let kv_capacity = KvCapacity::Contexts { count: 4, max_bytes: None };
    let options = RunOptions { threads: 2, kv_capacity, ..RunOptions::default() };
    FRONTEND.get_or_init(|| open(&options)).clone()
}

pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        salt_key: SaltKey::default(),
        keys: Keys::default(),
        hosts: Hosts { bound: Some(([127, 0, 0, 1], 30000).into()), ..Hosts::default() },
        proxies: Vec::new(),
        limits: Limits::default(),
        drain: Duration::from_secs(300),
        metrics: true,
        metrics_prefix: "wf".into(),
        page: true,
        mcp_servers: Vec::new(),
        files: None,
        tls: None,
    }
}

pub(crate) fn app(options: ServerOptions, frontend: Frontend) -> App {
    let app = App::new(options);
    app.set_model(ServedModel::new(frontend, description("demo")));
    app
}

/// The description of a model with this name.
pub(crate) fn description(name: &str) -> Description {
    Description {
        listing: Listing {
            names: vec![name.into(), "other-name".into()],
            aliases: vec!["alias".into()],
            path: "demo.gguf".into(),
            format: "gguf".into(),
            size_bytes: 18_264_544,
            architecture: "bitnet-b1.58".into(),
            context_len: 2048,
        },
        digest: "0123456789abcdef".into(),
        isa: "any".into(),
        threads: 2,
        kv: "f32".into(),
        activation_sparsity: "off".to_owned(),
        max_running: 16,
        memory_bytes: 100,
        decode: wf_engine::DecodeMode::Autoregressive,
        defaults: default_sampling(),
    }
}

/// A server as it is by default.
pub(crate) fn server() -> Router {
    router(&app(options(), frontend()))
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("host", "localhost");
    request.header("content-type", "application/json").body(body.into()).unwrap()
}

pub(crate) fn with_key(mut request: Request<Body>, key: &str) -> Request<Body> {
    let bearer = format!("Bearer {key}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    request
}

/// The whole body of an answer.
pub(crate) async fn bytes(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// Status and JSON of an answer; null where it is none.
pub(crate) async fn call(server: &Router, request: Request<Body>) -> (u16, Value) {
    let response = server.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&bytes(response).await).unwrap_or_default())
}

/// Sends a JSON request, whose status must be 200, and returns the response.
pub(crate) async fn ask(server: &Router, path: &str, body: &Value) -> Value {
    let (status, answer) = call(server, post(path, body.to_string())).await;
    assert_eq!(status, 200, "{body}: {answer}");
    answer
}

/// The error a JSON request is answered with: status, code and field.
pub(crate) async fn rejection(server: &Router, request: Request<Body>) -> (u16, String, Value) {
    let (status, answer) = call(server, request).await;
    let error = &answer["error"];
    let fields: Vec<_> = error.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["message", "type", "param", "code"], "{answer}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer}");
    assert!(error["type"].is_string());
    (status, error["code"].as_str().unwrap().to_owned(), error["param"].clone())
}

/// The events of a stream, which must be complete.
pub(crate) async fn events(server: &Router, path: &str, body: &Value) -> Vec<Value> {
    let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut reader = EventReader::default();
    let mut events = reader.push(&bytes(response).await);
    assert!(!reader.is_inside_event());
    assert_eq!(events.pop().as_deref(), Some(DONE));
    assert!(!events.iter().any(|event| event == DONE), "one end");
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

/// The path of a route, with something in place of its variables.
pub(crate) fn concrete(path: &str) -> String {
    path.replace("{model}", "demo").replace("{file}", "file-1").replace("{batch}", "batch_1")
}

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETE: &str = "/v1/completions";

/// Every method, for routes that take one of them.
pub(crate) const METHODS: [Method; 5] =
    [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH];
