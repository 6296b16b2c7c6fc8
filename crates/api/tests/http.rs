//! The client against a server that plays recorded bytes.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wf_api::http::{Client, Error, Faults, ReadFault, Timeouts};
use wf_api::wire::{ChatMessage, ChatRequest, CompletionRequest, Prompt};

/// A server that answers one request with `pieces`, each sent by itself, and returns what it was
/// asked.
async fn play(pieces: Vec<Vec<u8>>) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = client_of(&listener);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        stream.set_nodelay(true).expect("a socket");
        let request = read_request(&mut stream).await;
        for piece in pieces {
            // A client that has seen enough may be gone.
            if stream.write_all(&piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        request
    });
    (client, server)
}

fn client_of(listener: &TcpListener) -> Client {
    let address = listener.local_addr().expect("it is bound");
    Client::new(&format!("http://{address}")).expect("an address")
}

/// A request with all of its body, or as much as came.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a length")) {
                break;
            }
        }
        if stream.read_buf(&mut request).await.expect("a request") == 0 {
            break;
        }
    }
    String::from_utf8(request).expect("UTF-8")
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

/// A stream in chunks of HTTP's own, one for each of `events`.
fn chunked(events: &[String], ended: bool) -> Vec<u8> {
    let mut bytes =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_owned();
    for event in events {
        bytes += &format!("{:x}\r\n{event}\r\n", event.len());
    }
    if ended {
        bytes += "0\r\n\r\n";
    }
    bytes.into_bytes()
}

fn data(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| wf_api::sse::event(text)).collect()
}

const TEXTS: [&str; 3] = [r#"{"a":"é🦀"}"#, r#"{"a":2}"#, "[DONE]"];

async fn collect(client: &Client) -> (Vec<Value>, Option<Error>) {
    let mut found = Vec::new();
    let mut events = match client.stream::<Value>("/x", &()).await {
        Ok(events) => events,
        Err(error) => return (found, Some(error)),
    };
    loop {
        match events.next().await {
            Ok(Some(value)) => found.push(value),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

#[tokio::test]
async fn a_stream_is_read_however_it_is_cut_into_packets() {
    let mut events = data(&TEXTS);
    events.insert(1, wf_api::sse::comment("still here"));
    let whole = chunked(&events, true);
    for size in 1..whole.len() {
        let (client, _server) = play(whole.chunks(size).map(<[u8]>::to_vec).collect()).await;
        let (found, error) = collect(&client).await;
        assert!(error.is_none(), "{size}: {error:?}");
        assert_eq!(found, [serde_json::json!({"a": "é🦀"}), serde_json::json!({"a": 2})]);
    }
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_before_its_end_is_an_error() {
    let whole = chunked(&data(&TEXTS), true);
    for length in 0..whole.len() {
        let (client, _server) = play(vec![whole[..length].to_vec()]).await;
        let (_, error) = collect(&client).await;
        assert!(matches!(error, Some(Error::Connection(_))), "{length}: {error:?}");
    }
}

#[tokio::test]
async fn a_stream_without_done_is_an_error() {
    let (client, _server) = play(vec![chunked(&data(&TEXTS[..2]), true)]).await;
    let (found, error) = collect(&client).await;
    assert_eq!(found.len(), 2);
    assert!(matches!(error, Some(Error::Truncated(2))), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_goes_on_after_done_is_an_error() {
    let texts = [TEXTS[0], "[DONE]", TEXTS[1]];
    let (client, _server) = play(vec![chunked(&data(&texts), true)]).await;
    let (found, error) = collect(&client).await;
    assert_eq!(found.len(), 1);
    assert!(matches!(error, Some(Error::AfterDone(_))), "{error:?}");
}

const REFUSAL: &str = r#"{"error":{"message":"max_tokens is 0","type":"invalid_request_error","param":"max_tokens","code":null}}"#;

#[tokio::test]
async fn an_error_event_ends_a_stream_with_its_message() {
    let texts = [
        r#"{"id":"a","object":"","created":1,"model":"","system_fingerprint":"","choices":[]}"#,
        REFUSAL,
        "[DONE]",
    ];
    let (client, _server) = play(vec![chunked(&data(&texts), true)]).await;
    let mut events = client.complete_stream(&CompletionRequest::default()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().id, "a");
    let error = events.next().await.unwrap_err();
    assert!(
        matches!(&error, Error::Stream(detail) if detail.param.as_deref() == Some("max_tokens"))
    );
    assert!(error.to_string().contains("max_tokens is 0"), "{error}");
}

#[tokio::test]
async fn errors_have_status_message_and_retry_delay() {
    let answer = response("429 Too Many Requests", "retry-after: 3\r\n", REFUSAL);
    let (client, _server) = play(vec![answer]).await;
    let error = client.chat(&ChatRequest::default()).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (Some(429), Some(Duration::from_secs(3))));
    let message = error.to_string();
    assert!(message.contains("429: max_tokens is 0 (max_tokens)"), "{message}");

    // Also where the body is none of ours, or breaks off.
    for (body, kept) in [("<html>busy</html>", "<html>busy</html>"), ("", "empty body")] {
        let (client, _server) = play(vec![response("503 Busy", "", body)]).await;
        let (_, error) = collect(&client).await;
        let error = error.unwrap();
        assert_eq!((error.status(), error.retry_after()), (Some(503), None));
        assert!(error.to_string().contains(kept), "{error}");
    }
    let (client, _server) =
        play(vec![b"HTTP/1.1 500 E\r\ncontent-length: 9\r\n\r\nbro".to_vec()]).await;
    let error = client.get_text("/metrics").await.unwrap_err();
    assert!(
        matches!(&error, Error::Status { status: 500, body, .. } if body == "bro"),
        "{error:?}"
    );
}

#[tokio::test]
async fn requests_have_key_path_and_body() {
    let (client, server) =
        play(vec![response("200 OK", "", r#"{"count":1,"max_model_len":2,"tokens":[3]}"#)]).await;
    let client = client.with_api_key("secret").unwrap();
    let body = serde_json::json!({"prompt": "a"});
    let answer: Value = client.post_json("/tokenize", &body).await.unwrap();
    assert_eq!(answer["tokens"][0], 3);
    let request = server.await.unwrap();
    assert!(request.starts_with("POST /tokenize HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
    assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"prompt\":\"a\"}"), "{request}");
    assert!(!format!("{client:?}").contains("secret"));
}

#[tokio::test]
async fn the_typed_calls_ask_for_streams_or_not() {
    let chat =
        ChatRequest { messages: vec![ChatMessage::new("user", "hi")], ..ChatRequest::default() };
    let text = CompletionRequest {
        prompt: Some(Prompt::Text("hi".into())),
        ..CompletionRequest::default()
    };
    for (streamed, path) in [(true, "chat/"), (false, "chat/"), (true, ""), (false, "")] {
        let (client, server) = play(vec![response("400 No", "", REFUSAL)]).await;
        let error = match (streamed, path) {
            (true, "chat/") => client.chat_stream(&chat).await.err(),
            (false, "chat/") => client.chat(&chat).await.err(),
            (true, _) => client.complete_stream(&text).await.err(),
            (false, _) => client.complete(&text).await.err(),
        };
        assert_eq!(error.unwrap().status(), Some(400));
        let request = server.await.unwrap();
        assert!(request.starts_with(&format!("POST /v1/{path}completions ")), "{request}");
        assert!(request.contains(&format!("\"stream\":{streamed}")), "{request}");
    }
}

#[tokio::test]
async fn an_unexpected_response_is_quoted() {
    let (client, _server) = play(vec![response("200 OK", "", "{\"count\":\"many\"}")]).await;
    let error = client.get_json::<wf_api::wire::TokenizeResponse>("/tokenize").await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("/tokenize") && message.contains("{\"count\":\"many\"}"), "{message}");
}

#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client_of(&listener);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(&chunked(&data(&TEXTS[..1]), false)).await.unwrap();
        // Nothing more is said until the client is gone.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(|_| ())
    });
    let mut events = client.stream::<Value>("/x", &()).await.unwrap();
    assert!(events.next().await.unwrap().is_some());
    drop(events);
    // Closed or reset: either way the server knows.
    let _gone = server.await.unwrap();
}

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Client::new(&format!("http://{address}")).unwrap().get_text("/").await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn silence_has_an_end() {
    let brief = Duration::from_millis(20);
    for (bytes, word) in [
        (vec![], "waiting for the response"),
        (chunked(&data(&TEXTS[..1]), false), "reading the response"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client_of(&listener);
        let client =
            client.with_timeouts(Timeouts { connect: 100 * brief, response: brief, idle: brief });
        let _server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            stream.write_all(&bytes).await.unwrap();
            std::future::pending::<()>().await;
        });
        let (_, error) = collect(&client).await;
        assert!(error.as_ref().is_some_and(|e| e.to_string().contains(word)), "{word}: {error:?}");
    }
}

#[tokio::test]
async fn faults_end_or_delay_a_stream() {
    let whole = chunked(&data(&TEXTS), true);
    let pause = Duration::from_micros(100);
    for read_fault in [ReadFault::Stall(pause), ReadFault::Dribble(pause), ReadFault::Drop] {
        for at in [0, 1, 90, whole.len() as u64 - 1] {
            let (client, _server) = play(vec![whole.clone()]).await;
            let faults = Faults { read_fault: Some((at, read_fault)), send_pause: None };
            let (found, error) = collect(&client.with_faults(faults)).await;
            match read_fault {
                ReadFault::Drop => {
                    assert!(matches!(error, Some(Error::Connection(_))), "{at}: {error:?}")
                }
                _ => assert!(error.is_none() && found.len() == 2, "{read_fault:?} {at}: {error:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_request_sent_slowly_arrives_whole() {
    let (client, server) = play(vec![response("200 OK", "", "7")]).await;
    let pause = Some(Duration::from_micros(100));
    let client = client.with_faults(Faults { read_fault: None, send_pause: pause });
    assert_eq!(client.post_json::<i32>("/x", &"body").await.unwrap(), 7);
    assert!(server.await.unwrap().ends_with("\r\n\r\n\"body\""));
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_as_good() {
    let directory = std::env::temp_dir().join(format!("wf-api-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let _server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 16];
        stream.read_exact(&mut head).await.unwrap();
        stream.write_all(&response("200 OK", "", "5")).await.unwrap();
        std::future::pending::<()>().await;
    });
    let client = Client::new(&format!("unix:{}", path.display())).unwrap();
    assert_eq!(client.get_json::<i32>("/x").await.unwrap(), 5);
    std::fs::remove_dir_all(&directory).unwrap();
}
