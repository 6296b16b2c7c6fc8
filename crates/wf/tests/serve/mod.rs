//! Tests of `wf serve`: options, errors, signals.

mod models;
mod server;
#[cfg(target_os = "linux")]
mod templates;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use server::{Server, command, fails, start};

#[test]
fn it_prints_its_address_and_an_example() {
    let server = start(&mut command(&["--port", "0"]));
    for word in ["wf-demo", "http://127.0.0.1:", "thread", "context 2048 tokens", "curl", "/docs"] {
        assert!(server.greeting.contains(word), "{word}: {}", server.greeting);
    }
    assert!(server.get("/health", "").contains(r#""status":"healthy""#));
    let tags = server.get("/api/tags", "");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
    let size = format!(r#""size":{},"#, std::fs::metadata(demo).unwrap().len());
    assert!(tags.contains(&size) && tags.contains(r#""format":"gguf""#), "{tags}");
    let models = server.get("/v1/models", "");
    let digest = "15e6019bc181";
    assert!(models.contains("wf-demo") && models.contains(digest), "{models}");
}

#[test]
fn flags_override_variables_override_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wf.toml");
    let settings = "port = 0\ncontext = 512\nmax_sequences = 7\nserved-model-name = [\"a\", \"b\"]\n\
                    temperature = 0.25\ntop-p = 0.5\nlog = \"warn\"\nno-metrics = true\n";
    std::fs::write(&file, settings).unwrap();
    let mut command = command(&["--config", file.to_str().unwrap(), "--temperature", "0.75"]);
    let server = start(command.env("WF_CONTEXT", "1024").env("WF_TEMPERATURE", "0.5"));
    let props = server.get("/props", "");
    for setting in [
        r#""temperature":0.75"#,
        r#""n_ctx":1024"#,
        r#""top_p":0.5"#,
        r#""top_k":0"#,
        r#""total_slots":7"#,
        r#""model_names":["a","b"]"#,
    ] {
        assert!(props.contains(setting), "{setting}: {props}");
    }
    assert!(server.get("/metrics", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn errors_of_the_file_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wf.toml");
    let refusal = |settings: &str| {
        std::fs::write(&file, settings).unwrap();
        fails(&mut command(&["--config", file.to_str().unwrap()]))
    };
    for (settings, said) in [
        ("prot = 1", "unknown option \"prot\"; did you mean port?"),
        ("port = true", "port: must be a string, a number or an array"),
        ("mlock = 1", "mlock: must be true or false"),
        ("port = \"x\"", "--port"),
        ("port = ", "wf.toml"),
        ("config = \"x\"", "unknown option \"config\""),
    ] {
        let (code, message) = refusal(settings);
        assert_eq!(code, 2, "{settings}: {message}");
        assert!(message.contains(said), "{settings}: {message}");
    }
    let (code, message) = fails(&mut command(&["--config", "/nowhere/wf.toml"]));
    assert!(code == 2 && message.contains("/nowhere/wf.toml"), "{message}");
}

#[test]
fn a_public_address_requires_a_key() {
    let (code, message) = fails(&mut command(&["--host", "0.0.0.0", "--port", "0"]));
    assert_eq!(code, 1);
    assert!(message.contains("--api-key-file") && message.contains("--no-key"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "# ours\n\n").unwrap();
    let file = keys.to_str().unwrap();
    let (code, message) = fails(&mut command(&["--port", "0", "--api-key-file", file]));
    assert!(code == 1 && message.contains("have no key"), "{message}");

    std::fs::write(&keys, "# ours\nfirst\n second \n").unwrap();
    let flags = ["--host", "0.0.0.0", "--port", "0", "--api-key-file", file];
    let mut server = start(command(&flags).env("WF_API_KEY", "third"));
    server.address = server.address.replace("0.0.0.0", "127.0.0.1");
    assert!(server.get("/v1/models", "").starts_with("HTTP/1.1 401"));
    for key in ["first", "second", "third"] {
        let head = format!("authorization: Bearer {key}\r\n");
        assert!(server.get("/v1/models", &head).starts_with("HTTP/1.1 200"), "{key}");
    }
    let mut open = start(&mut command(&["--host", "0.0.0.0", "--port", "0", "--no-key"]));
    open.address = open.address.replace("0.0.0.0", "127.0.0.1");
    assert!(open.get("/v1/models", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn errors_before_serving() {
    let server = start(&mut command(&["--port", "0"]));
    let port = server.address.rsplit(':').next().unwrap();
    let (code, message) = fails(&mut command(&["--port", port]));
    assert!(code == 1 && message.contains("--port"), "{message}");
    let (code, message) = fails(&mut command(&["--port", "0", "/nowhere/model.gguf"]));
    assert!(code == 1 && message.contains("/nowhere/model.gguf"), "{message}");
    assert!(!message.contains("shutting down") && !message.contains("stopping"), "{message}");
    let (code, message) = fails(&mut command(&["--port", "0", "--kv-memory", "1K"]));
    assert!(code == 1 && message.contains("one page of 32 tokens"), "{message}");
    let (code, _) = fails(&mut command(&["--port", "0", "--model-path", "/nowhere/x"]));
    assert_eq!(code, 1);
    assert!(Path::new(env!("CARGO_BIN_EXE_wf")).exists());
}

#[cfg(unix)]
#[test]
fn one_signal_stops_gracefully_and_two_at_once() {
    let mut server = start(&mut command(&["--port", "0"]));
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));

    let mut server = start(&mut command(&["--port", "0", "--drain", "600"]));
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let body = r#"{"prompt": "Once", "max_tokens": 2000, "ignore_eos": true, "stream": true}"#;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    server.signal("-INT");
    while !server.get("/health", "").starts_with("HTTP/1.1 503") {}
    server.signal("-INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_server_that_is_still_loading() {
    // A hub that accepts connections and never responds.
    let hub = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = command(&["--port", "0", "hf:maker/model"]);
    command.env("HF_ENDPOINT", format!("http://{}", hub.local_addr().unwrap()));
    command.env("XDG_CACHE_HOME", tempfile::tempdir().unwrap().path());
    let mut server =
        Server { child: command.spawn().unwrap(), greeting: String::new(), address: String::new() };
    let _asked = hub.accept().unwrap();
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn keys_and_their_limits_are_read_again_on_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let file = keys.to_str().unwrap();
    std::fs::write(&keys, "first\n").unwrap();
    let server = start(&mut command(&["--port", "0", "--api-key-file", file]));
    let status = |key: &str| {
        let answer = server.get("/v1/models", &format!("authorization: Bearer {key}\r\n"));
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((status("first"), status("second")), ("200".into(), "401".into()));
    std::fs::write(&keys, "second name=bob requests-per-minute=100\n").unwrap();
    server.signal("-HUP");
    while status("second") != "200" {
        std::thread::yield_now();
    }
    assert_eq!(status("first"), "401");
    // A file with an error changes nothing.
    std::fs::write(&keys, "third requests=none\n").unwrap();
    server.signal("-HUP");
    assert_eq!((status("third"), status("second")), ("401".into(), "200".into()));
    let (code, message) = fails(&mut command(&["--port", "0", "--api-key-file", file]));
    assert_eq!(code, 1);
    assert!(
        message.contains("line 1: requests is \"none\"") && !message.contains("third"),
        "{message}"
    );
}

#[cfg(unix)]
#[test]
fn each_request_is_one_line_of_the_log_without_its_text() {
    let flags = ["--port", "0", "--api-key", "sesame", "--log-format", "json"];
    let mut server = start(&mut command(&flags));
    let key = "authorization: Bearer sesame\r\n";
    let body = r#"{"prompt": "whisper", "max_tokens": 3, "ignore_eos": true, "stream": true}"#;
    assert!(server.post("/v1/completions", key, body).contains("[DONE]"));
    assert!(
        server.post("/v1/completions", key, r#"{"prompt": "whisper", "n": 0}"#).contains("400")
    );
    assert!(server.get("/v1/models", "").contains("401"));
    server.signal("-TERM");
    server.child.wait().unwrap();
    let mut text = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(!text.contains("whisper") && !text.contains("sesame"), "{text}");
    let lines =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let lines: Vec<_> = lines.filter(|line| line["message"] == "request").collect();
    assert_eq!(lines.len(), 3, "{text}");
    let [stream, refused, stranger] = &lines[..] else { panic!("{text}") };
    assert_eq!((&stream["status"], &stream["completion_tokens"]), (&200.into(), &3.into()));
    assert!(stream["caller"].as_str().unwrap().starts_with("key-"));
    for time in ["queue_ms", "first_token_ms", "ms"] {
        assert!(stream[time].is_number(), "{time}: {stream}");
    }
    assert!(stream["prompt_tokens"].as_u64() > Some(0) && stream["id"].is_string());
    assert!(stream.get("code").is_none());
    assert_eq!((&refused["status"], &refused["code"]), (&400.into(), &"invalid_value".into()));
    assert_eq!(
        (&stranger["code"], &stranger["caller"]),
        (&"invalid_api_key".into(), &"127.0.0.1".into())
    );
}

#[test]
fn the_greeting_names_a_mode_of_attention() {
    let flags = |mode| ["--port", "0", "--context", "256", "--attention", mode];
    let sliding = start(&mut command(&flags("window=128,sinks=4")));
    let words = "attention window=128,sinks=4, chats of up to 1048576 tokens";
    assert!(sliding.greeting.contains(words), "{}", sliding.greeting);
    assert!(sliding.get("/v1/models", "").contains("\"max_model_len\":1048576"));
    let dense = start(&mut command(&flags("dense")));
    assert!(!dense.greeting.contains("attention"), "{}", dense.greeting);
    let (status, error) = fails(&mut command(&flags("window=256,sinks=4")));
    assert!(status == 1 && error.contains("reads 260 positions"), "{error}");
    let (status, error) = fails(&mut command(&["--cache-size", "1G"]));
    assert!(status == 2 && error.contains("--cache-dir <DIR>"), "{error}");
}
