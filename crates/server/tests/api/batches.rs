//! Files and batches: uploads, results, owners, and what a restart continues.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;
use wf_server::{App, FileStore, Keys, ServerOptions, StoreLimits, router, run_batches};

use crate::support::{app, ask, bytes, call, frontend, get, options, post, server, with_key};

fn app_in(dir: &Path, limits: StoreLimits, keys: &[&str]) -> App {
    let files = Some(FileStore::open(dir, limits).unwrap());
    app(ServerOptions { files, keys: Keys::new(keys.iter().copied()), ..options() }, frontend())
}

/// A form with a file, as clients send it.
fn form(purpose: &str, content: &str) -> Request<Body> {
    let body = format!(
        "--XX\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\n{purpose}\r\n--XX\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\
         content-type: application/octet-stream\r\n\r\n{content}\r\n--XX--\r\n"
    );
    let mut request = post("/v1/files", body);
    let kind = "multipart/form-data; boundary=XX".parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    request
}

fn line(id: &str, body: &Value) -> String {
    let line = json!({"custom_id": id, "method": "POST", "url": "/v1/completions", "body": body});
    format!("{line}\n")
}

fn completion(id: &str, max_tokens: usize) -> String {
    line(id, &json!({"prompt": "Once upon", "max_tokens": max_tokens, "temperature": 0}))
}

async fn upload(server: &Router, content: &str) -> String {
    let (status, file) = call(server, form("batch", content)).await;
    assert_eq!(status, 200, "{file}");
    assert_eq!(file["bytes"], content.len());
    file["id"].as_str().unwrap().to_owned()
}

async fn create(server: &Router, file: &str, window: &str) -> String {
    let body = json!({
        "input_file_id": file, "endpoint": "/v1/completions", "completion_window": window,
        "metadata": {"name": "test"},
    });
    let batch = ask(server, "/v1/batches", &body).await;
    assert_eq!(
        (&batch["status"], &batch["metadata"]["name"]),
        (&json!("validating"), &json!("test"))
    );
    batch["id"].as_str().unwrap().to_owned()
}

/// Waits until a batch is over.
async fn finished(server: &Router, id: &str) -> Value {
    loop {
        let (_, batch) = call(server, get(&format!("/v1/batches/{id}"))).await;
        let status = batch["status"].as_str().unwrap();
        if matches!(status, "completed" | "failed" | "cancelled" | "expired") {
            return batch;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads a file of results by their `custom_id`.
async fn results(server: &Router, file: &Value) -> Vec<Value> {
    let path = format!("/v1/files/{}/content", file.as_str().unwrap());
    let response = server.clone().oneshot(get(&path)).await.unwrap();
    assert_eq!(response.status(), 200);
    let text = String::from_utf8(bytes(response).await).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["custom_id"].as_str().unwrap().to_owned());
    lines
}

/// Starts to run batches; dropping the handle stops it.
fn run(app: &App) -> (Router, watch::Sender<bool>) {
    let (router, stop) = (router(app), watch::Sender::new(false));
    tokio::spawn(run_batches(app.clone(), router.clone(), stop.subscribe()));
    (router, stop)
}

#[tokio::test]
async fn without_a_directory_the_error_names_the_flag() {
    let server = server();
    for path in ["/v1/files", "/v1/files/file-1", "/v1/files/file-1/content", "/v1/batches"] {
        let (status, answer) = call(&server, get(path)).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("files_off")), "{path}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("--files-dir"));
    }
}

#[tokio::test]
async fn a_batch_has_the_results_of_single_requests_and_errors_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_in(folder.path(), StoreLimits::default(), &[]);
    let (server, _stop) = run(&app);
    let elsewhere =
        json!({"custom_id": "x", "method": "POST", "url": "/v1/embeddings", "body": {}});
    let input = [
        completion("a", 6),
        completion("b", 3),
        line("wrong", &json!({"prompt": "x", "max_tokens": 0})),
        elsewhere.to_string(),
    ];
    let file = upload(&server, &input.concat()).await;
    let batch = finished(&server, &create(&server, &file, "24h").await).await;
    assert_eq!(batch["status"], "completed", "{batch}");
    assert_eq!(batch["request_counts"], json!({"total": 4, "completed": 2, "failed": 2}));
    let output = results(&server, &batch["output_file_id"]).await;
    let alone = json!({"prompt": "Once upon", "max_tokens": 6, "temperature": 0});
    let alone = ask(&server, "/v1/completions", &alone).await;
    assert_eq!(output.len(), 2);
    assert_eq!(output[0]["response"]["body"]["choices"], alone["choices"]);
    assert_eq!(output[0]["response"]["status_code"], 200);
    let errors = results(&server, &batch["error_file_id"]).await;
    assert_eq!(errors[0]["response"]["status_code"], 400, "{errors:?}");
    assert_eq!(errors[1]["error"]["code"], "invalid_url", "{errors:?}");
    let (_, listed) = call(&server, get("/v1/files?purpose=batch_output&limit=1")).await;
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["has_more"]), (1, &json!(true)));
    let after = format!("/v1/files?after={}", listed["last_id"].as_str().unwrap());
    assert_eq!(call(&server, get(&after)).await.0, 200);
    let (_, batches) = call(&server, get("/v1/batches")).await;
    assert_eq!(batches["data"][0], batch);
}

#[tokio::test]
async fn a_file_that_is_no_batch_fails_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_in(folder.path(), StoreLimits { requests: 2, ..StoreLimits::default() }, &[]);
    let (server, _stop) = run(&app);
    let three = ["a", "b", "c"].map(|id| completion(id, 1)).concat();
    for (content, at, word) in [
        ("{\"custom_id\": \"a\"}\nnot json\n".to_owned(), json!(2), "JSON object"),
        (completion("a", 1).repeat(2), json!(2), "not unique"),
        (three, json!(3), "limit of 2"),
        ("\n".to_owned(), json!(null), "no requests"),
    ] {
        let file = upload(&server, &content).await;
        let batch = finished(&server, &create(&server, &file, "24h").await).await;
        let error = &batch["errors"]["data"][0];
        assert_eq!((&batch["status"], &error["line"]), (&json!("failed"), &at), "{batch}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(word) && !message.contains('/'), "{batch}");
    }
}

#[tokio::test]
async fn other_keys_see_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_in(folder.path(), StoreLimits::default(), &["one", "two"]);
    let (server, _stop) = run(&app);
    let (status, file) = call(&server, with_key(form("batch", &completion("a", 1)), "one")).await;
    assert_eq!(status, 200, "{file}");
    let file = file["id"].as_str().unwrap().to_owned();
    let body =
        json!({"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h"});
    let creation = || post("/v1/batches", body.to_string());
    let (status, refused) = call(&server, with_key(creation(), "two")).await;
    assert_eq!((status, &refused["error"]["param"]), (400, &json!("input_file_id")), "{refused}");
    let (status, batch) = call(&server, with_key(creation(), "one")).await;
    assert_eq!(status, 200, "{batch}");
    let batch = batch["id"].as_str().unwrap().to_owned();
    for path in [
        format!("/v1/files/{file}"),
        format!("/v1/files/{file}/content"),
        format!("/v1/batches/{batch}"),
    ] {
        assert_eq!(call(&server, with_key(get(&path), "two")).await.0, 404, "{path}");
        assert_eq!(call(&server, with_key(get(&path), "one")).await.0, 200, "{path}");
        assert_eq!(call(&server, get(&path)).await.0, 401, "{path}");
    }
    let cancel = post(&format!("/v1/batches/{batch}/cancel"), "");
    assert_eq!(call(&server, with_key(cancel, "two")).await.0, 404);
    let delete = Request::delete(format!("/v1/files/{file}")).header("host", "localhost");
    let delete = with_key(delete.body(Body::empty()).unwrap(), "two");
    assert_eq!(call(&server, delete).await.0, 404);
    for path in ["/v1/files", "/v1/batches"] {
        let (_, listed) = call(&server, with_key(get(path), "two")).await;
        assert_eq!(listed["data"], json!([]), "{path}");
    }
    // The requests of the batch run as its owner.
    loop {
        let (_, batch) = call(&server, with_key(get(&format!("/v1/batches/{batch}")), "one")).await;
        if batch["status"] == "completed" {
            assert_eq!(batch["request_counts"]["completed"], 1, "{batch}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_batch_continues_after_a_restart_and_sends_no_request_twice() {
    let folder = tempfile::tempdir().unwrap();
    let input: String = (0..20).map(|at| completion(&format!("{at:02}"), 4)).collect();
    let id = {
        let app = app_in(folder.path(), StoreLimits::default(), &[]);
        let (server, stop) = run(&app);
        let file = upload(&server, &input).await;
        let id = create(&server, &file, "24h").await;
        let path = format!("/v1/batches/{id}");
        while call(&server, get(&path)).await.1["request_counts"]["completed"] == 0 {
            tokio::task::yield_now().await;
        }
        stop.send_replace(true);
        // The runner holds the directory until its last task is gone.
        drop((server, app));
        id
    };
    let open = || FileStore::open(folder.path(), StoreLimits::default());
    let mut store = open();
    while store.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        store = open();
    }
    let before =
        std::fs::read_to_string(folder.path().join(format!("batches/{id}.results"))).unwrap();
    assert!(before.lines().count() > 0);
    let app = app(ServerOptions { files: Some(store.unwrap()), ..options() }, frontend());
    let (server, _stop) = run(&app);
    let batch = finished(&server, &id).await;
    assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}));
    let output = results(&server, &batch["output_file_id"]).await;
    let ids: Vec<_> = output.iter().map(|line| line["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids, (0..20).map(|at| format!("{at:02}")).collect::<Vec<_>>());
    // Results from before the restart are the same lines, ids of requests included.
    for line in before.lines().filter(|line| line.ends_with('}')) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(output.contains(&line), "{line}");
    }
}

#[tokio::test]
async fn batches_are_cancelled_and_expire() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_in(folder.path(), StoreLimits::default(), &[]);
    let (server, _stop) = run(&app);
    let long: String = (0..200).map(|at| completion(&at.to_string(), 200)).collect();
    let file = upload(&server, &long).await;
    let id = create(&server, &file, "24h").await;
    let delete = || Request::delete(format!("/v1/files/{file}")).header("host", "localhost");
    let (status, used) = call(&server, delete().body(Body::empty()).unwrap()).await;
    assert_eq!((status, &used["error"]["code"]), (409, &json!("file_in_use")));
    // One that waits behind another is cancelled at once.
    let waiting = create(&server, &file, "24h").await;
    ask(&server, &format!("/v1/batches/{waiting}/cancel"), &json!({})).await;
    assert_eq!(finished(&server, &waiting).await["status"], "cancelled");
    let cancelling = ask(&server, &format!("/v1/batches/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelling["status"], "cancelling");
    let batch = finished(&server, &id).await;
    assert_eq!(batch["status"], "cancelled");
    assert!(batch["cancelled_at"].as_u64() >= batch["cancelling_at"].as_u64());

    let batch = finished(&server, &create(&server, &file, "1s").await).await;
    assert_eq!(batch["status"], "expired", "{batch}");
    let counts = &batch["request_counts"];
    assert_eq!(counts["completed"].as_u64().unwrap() + counts["failed"].as_u64().unwrap(), 200);
    let errors = results(&server, &batch["error_file_id"]).await;
    assert_eq!(errors[0]["error"]["code"], "batch_expired");
    assert_eq!(call(&server, delete().body(Body::empty()).unwrap()).await.1["deleted"], true);
    assert_eq!(call(&server, get(&format!("/v1/files/{file}"))).await.0, 404);
}

#[tokio::test]
async fn half_a_result_of_a_cancelled_batch_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_in(folder.path(), StoreLimits::default(), &[]);
    let server = router(&app);
    let file = upload(&server, &[completion("a", 1), completion("b", 1)].concat()).await;
    let id = create(&server, &file, "24h").await;
    ask(&server, &format!("/v1/batches/{id}/cancel"), &json!({})).await;
    // Left by a process that ended while it wrote the second result.
    let response = json!({"status_code": 200, "request_id": "1", "body": {}});
    let result = |id| json!({"id": id, "custom_id": id, "response": response, "error": null});
    let (whole, half) = (result("a").to_string(), &result("b").to_string()[..40]);
    let path = folder.path().join(format!("batches/{id}.results"));
    std::fs::write(path, format!("{whole}\n{half}")).unwrap();

    let (server, _stop) = run(&app);
    let batch = finished(&server, &id).await;
    assert_eq!(batch["status"], "cancelled");
    let counts = &batch["request_counts"];
    assert_eq!((&counts["completed"], &counts["failed"]), (&json!(1), &json!(0)), "{batch}");
    assert_eq!(results(&server, &batch["output_file_id"]).await, [result("a")]);
    assert_eq!(batch["error_file_id"], Value::Null);
}

#[tokio::test]
async fn uploads_and_batches_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let limits = StoreLimits { file_len: 100_000, ..StoreLimits::default() };
    let server = router(&app_in(folder.path(), limits, &[]));
    let code = async |request| {
        let (status, answer) = call(&server, request).await;
        (status, answer["error"]["param"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(code(form("fine-tune", "x")).await, (400, "purpose".into()));
    assert_eq!(code(form("batch", "")).await, (400, "file".into()));
    assert_eq!(code(form("batch", &"x".repeat(100_001))).await, (413, String::new()));
    assert_eq!(code(form("batch", &"x".repeat(3 << 20))).await, (413, String::new()));
    assert_eq!(code(post("/v1/files", "{}")).await, (400, String::new()));
    // A form that ends too early.
    let mut short = form("batch", "");
    *short.body_mut() =
        Body::from("--XX\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\nabc");
    assert_eq!(code(short).await.0, 400);
    assert_eq!(std::fs::read_dir(folder.path().join("files")).unwrap().count(), 0);

    let file = upload(&server, &completion("a", 1)).await;
    let good =
        json!({"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h"});
    for (field, value) in [
        ("input_file_id", json!("file-none")),
        ("endpoint", json!("/v1/models")),
        ("completion_window", json!("tomorrow")),
        ("metadata", json!({"x": "y".repeat(513)})),
        ("output_expires_after", json!({"anchor": "created_at", "seconds": 5})),
        ("priority", json!(1)),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let (status, param) = code(post("/v1/batches", body.to_string())).await;
        assert_eq!(status, 400, "{field}");
        assert!(param.contains(&field.replace("output_", "")), "{field}: {param}");
    }
    for query in ["limit=0", "limit=x", "order=up", "after=none"] {
        assert_eq!(call(&server, get(&format!("/v1/batches?{query}"))).await.0, 400, "{query}");
    }
}

#[tokio::test]
async fn the_head_of_a_part_is_limited_however_large_files_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let server = router(&app_in(folder.path(), StoreLimits::default(), &[]));
    let head = std::iter::once("--XX\r\nx: ".to_owned());
    let frames = head.chain(std::iter::repeat_n("y".repeat(64 << 10), 80));
    let mut endless = form("batch", "");
    *endless.body_mut() = Body::from_stream(stream::iter(frames.map(Ok::<_, std::io::Error>)));
    let (status, answer) = call(&server, endless).await;
    assert_eq!(status, 400, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("too much besides its fields"), "{message}");
}
