//! Anthropic's API generates the same text as OpenAI's.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_api::sse::EventReader;
use wf_server::{App, Keys, ServerOptions, router};

use crate::support::{CHAT, app, ask, bytes, call, frontend, get, options, post, server};

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn story() -> Value {
    json!({"model": "demo", "max_tokens": 24, "temperature": 0, "system": "Be kind",
           "messages": [{"role": "user", "content": "Tell me a story about a cat"}]})
}

fn with(field: &str, value: Value) -> Value {
    let mut body = story();
    body[field] = value;
    body
}

/// The kind and the message of a rejection, which must be in Anthropic's form.
async fn rejection(server: &axum::Router, request: Request<Body>) -> (u16, String, String) {
    let (status, answer) = call(server, request).await;
    assert_eq!(answer["type"], "error", "{answer}");
    assert!(!answer["request_id"].as_str().unwrap().is_empty());
    let text = |field: &str| answer["error"][field].as_str().unwrap().to_owned();
    (status, text("type"), text("message"))
}

#[tokio::test]
async fn the_text_equals_that_of_chat_completions() {
    let server = server();
    let openai = ask(
        &server,
        CHAT,
        &json!({"max_tokens": 24, "temperature": 0,
                "messages": [{"role": "system", "content": "Be kind"},
                             {"role": "user", "content": "Tell me a story about a cat"}]}),
    )
    .await;
    let parts =
        json!([{"type": "text", "text": "Be kind", "cache_control": {"type": "ephemeral"}}]);
    for body in [story(), with("system", parts)] {
        let answer = ask(&server, MESSAGES, &body).await;
        let text = &openai["choices"][0]["message"]["content"];
        assert_eq!(answer["content"], json!([{"type": "text", "text": text}]));
        assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
        assert_eq!(answer["stop_reason"], "max_tokens");
        assert_eq!(answer["stop_sequence"], Value::Null);
        let count = |field: &str| answer["usage"][field].as_u64().unwrap();
        let prompt = count("input_tokens") + count("cache_read_input_tokens");
        assert_eq!(prompt, openai["usage"]["prompt_tokens"].as_u64().unwrap());
        assert_eq!(count("output_tokens"), 24);
        let counted = json!({"messages": body["messages"], "system": body["system"]});
        assert_eq!(ask(&server, COUNT, &counted).await, json!({"input_tokens": prompt}));
    }
}

#[tokio::test]
async fn streams_and_whole_responses_agree() {
    let server = server();
    let whole = ask(&server, MESSAGES, &story()).await;
    let request = post(MESSAGES, with("stream", json!(true)).to_string());
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = bytes(response).await;
    let lines = String::from_utf8(body.clone()).unwrap();
    let names: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let data = EventReader::default().push(&body);
    let events: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, kinds, "an event is called what it is");
    assert_eq!(kinds[..3], ["message_start", "content_block_start", "ping"]);
    let (deltas, end) = kinds[3..].split_at(kinds.len() - 6);
    assert!(deltas.len() > 10 && deltas.iter().all(|kind| *kind == "content_block_delta"));
    assert_eq!(end, ["content_block_stop", "message_delta", "message_stop"]);
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, whole["content"][0]["text"].as_str().unwrap());
    let message = &events[0]["message"];
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(message["usage"]["output_tokens"], 0);
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"], json!({"stop_reason": "max_tokens", "stop_sequence": null}));
    assert_eq!(end["usage"]["output_tokens"], 24);
}

#[tokio::test]
async fn stop_sequences_are_named_and_open_messages_continued() {
    let server = server();
    let whole = ask(&server, MESSAGES, &story()).await;
    let text = whole["content"][0]["text"].as_str().unwrap();
    let stop = text.split_whitespace().nth(4).unwrap();
    let stopped = ask(&server, MESSAGES, &with("stop_sequences", json!(["@@@", stop]))).await;
    assert_eq!(stopped["stop_reason"], "stop_sequence");
    assert_eq!(stopped["stop_sequence"], stop);
    let before = &text[..text.find(stop).unwrap()];
    assert_eq!(stopped["content"][0]["text"], before);

    let messages = json!([{"role": "user", "content": "Tell me a story"},
                          {"role": "assistant", "content": "Once upon a time, there was a "}]);
    let ours = json!({"messages": messages, "continue_final_message": true, "max_tokens": 8,
                      "temperature": 0});
    let ours = ask(&server, CHAT, &ours).await;
    let theirs = json!({"messages": messages, "max_tokens": 8, "temperature": 0});
    let theirs = ask(&server, MESSAGES, &theirs).await;
    assert_eq!(theirs["content"][0]["text"], ours["choices"][0]["message"]["content"]);
}

#[tokio::test]
async fn invalid_fields_are_named() {
    let server = server();
    let image = json!([{"role": "user", "content": [{"type": "image", "source": {}}]}]);
    let tool = json!([{"type": "sorcery", "name": "x"}]);
    for (field, value, says) in [
        ("max_tokens", Value::Null, "max_tokens is required"),
        ("max_tokens", json!(0), "max_tokens is 0"),
        ("temperature", json!(1.5), "temperature is 1.5: must be between 0 and 1"),
        ("temperature", json!(-0.5), "temperature is -0.5"),
        ("top_p", json!(1.5), "top_p"),
        ("top_k", json!(-1), "top_k"),
        ("stop_sequences", json!([""]), "stop_sequences: must not contain an empty string"),
        ("stop_sequences", json!(vec!["x"; 17]), "stop_sequences has 17 entries"),
        ("messages", json!([]), "messages: must have at least one"),
        ("messages", image, "messages[0].content[0].type: \"image\" is not supported"),
        ("messages", json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
        ("system", json!([{"type": "image"}]), "system[0].type"),
        ("tools", tool, "tools[0].type is \"sorcery\""),
        ("tools", json!([{"input_schema": {}}]), "tools[0].name: must have 1 to 128"),
        ("tool_choice", json!({"type": "all"}), "tool_choice.type: must be auto"),
        ("tool_choice", json!({"type": "tool", "name": "x"}), "tool_choice: \"x\" is not one of"),
        ("tool_choice", json!({"type": "any"}), "tool_choice: \"required\" needs"),
        ("thinking", json!({"type": "sometimes"}), "thinking.type: must be enabled"),
        ("max_token", json!(1), "unknown field \"max_token\"; did you mean \"max_tokens\"?"),
    ] {
        let request = post(MESSAGES, with(field, value.clone()).to_string());
        let (status, kind, message) = rejection(&server, request).await;
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{field}: {value}");
        assert!(message.starts_with(says), "{field}: {value}: {message}");
    }
    for (field, value) in [
        ("tools", json!([])),
        ("tool_choice", json!({"type": "auto"})),
        ("metadata", json!({"user_id": "u"})),
        ("thinking", json!({"type": "disabled"})),
        ("thinking", json!({"type": "adaptive"})),
        ("thinking", json!({"type": "enabled", "budget_tokens": 1024})),
        ("context_management", json!({"edits": [{"type": "clear_thinking_20251015"}]})),
    ] {
        ask(&server, MESSAGES, &with(field, value)).await;
    }
}

#[tokio::test]
async fn tools_that_anthropic_defines_are_ignored_and_listed() {
    let server = server();
    let plain = ask(&server, MESSAGES, &story()).await;
    let tools = json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
                       {"type": "bash_20250124", "name": "bash"},
                       {"type": "mcp_toolset", "mcp_server_name": "x"}]);
    let body = with("tools", tools.clone());
    let response = server.clone().oneshot(post(MESSAGES, body.to_string())).await.unwrap();
    let listed = "tools[0]:web_search_20250305, tools[1]:bash_20250124, tools[2]:mcp_toolset";
    assert_eq!(response.headers()["x-wf-ignored-fields"], listed);
    let answer: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    assert_eq!(answer["content"], plain["content"]);
    let counted = json!({"messages": body["messages"], "system": body["system"], "tools": tools});
    assert!(ask(&server, COUNT, &counted).await["input_tokens"].as_u64().unwrap() > 0);
    let mut named = body;
    named["tool_choice"] = json!({"type": "tool", "name": "web_search"});
    let (status, _, message) = rejection(&server, post(MESSAGES, named.to_string())).await;
    assert!(status == 400 && message.contains("\"web_search\" is not one of"), "{message}");
    // Errors count the tools of the request.
    let mixed = json!([{"type": "web_search_20250305", "name": "web_search"}, {"name": ""}]);
    let request = post(MESSAGES, with("tools", mixed).to_string());
    let (_, _, message) = rejection(&server, request).await;
    assert!(message.starts_with("tools[1].name"), "{message}");
}

#[tokio::test]
async fn max_tokens_beyond_the_context_is_what_fits() {
    let server = server();
    let full = json!([{"role": "user", "content": "word ".repeat(1990)}]);
    let body = json!({"messages": full, "max_tokens": 32_000, "temperature": 0});
    let answer = ask(&server, MESSAGES, &body).await;
    let used = answer["usage"]["input_tokens"].as_u64().unwrap()
        + answer["usage"]["output_tokens"].as_u64().unwrap();
    assert_eq!(answer["stop_reason"], "model_context_window_exceeded", "{answer}");
    assert_eq!(used, 2048);
    let body = json!({"messages": full, "max_tokens": 2, "temperature": 0});
    assert_eq!(ask(&server, MESSAGES, &body).await["stop_reason"], "max_tokens");
    let message = json!([{"role": "user", "content": "word ".repeat(4000)}]);
    let body = json!({"messages": message, "max_tokens": 32_000}).to_string();
    let (status, _, message) = rejection(&server, post(MESSAGES, body)).await;
    assert_eq!(status, 400);
    assert!(message.contains("exceeds the context of 2048"), "{message}");
}

#[tokio::test]
async fn thoughts_are_left_out_and_instructions_may_be_messages() {
    let server = server();
    let say = |role: &str, content: Value| json!({"role": role, "content": content});
    let ask = async |messages: Value, system: Value| {
        let body =
            json!({"messages": messages, "system": system, "max_tokens": 12, "temperature": 0});
        ask(&server, MESSAGES, &body).await["content"].clone()
    };
    let thought = json!([
        {"type": "thinking", "thinking": "A greeting.", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hello!"},
    ]);
    let (hello, more) = (say("user", json!("hello")), say("user", json!("Tell me a story")));
    let plain = json!([hello, say("assistant", json!("Hello!")), more]);
    let with_thought = json!([hello, say("assistant", thought), more]);
    let expected = ask(plain, json!("Be kind.")).await;
    assert_eq!(ask(with_thought.clone(), json!("Be kind.")).await, expected);
    let mut within = with_thought;
    within.as_array_mut().unwrap().insert(0, say("system", json!("Be kind.")));
    assert_eq!(ask(within, Value::Null).await, expected);
}

#[tokio::test]
async fn errors_from_before_the_route_are_in_the_same_form() {
    let server = server();
    let status = async |request| {
        let (status, kind, _) = rejection(&server, request).await;
        (status, kind)
    };
    assert_eq!(status(get(MESSAGES)).await, (405, "invalid_request_error".into()));
    assert_eq!(status(get("/v1/messages/batches")).await, (404, "not_found_error".into()));
    let request = post(MESSAGES, with("model", json!("claude")).to_string());
    assert_eq!(status(request).await, (404, "not_found_error".into()));
    let loading = router(&App::new(options()));
    let (code, kind, _) = rejection(&loading, post(MESSAGES, story().to_string())).await;
    assert_eq!((code, kind.as_str()), (503, "overloaded_error"));

    let keys = Keys::new(["secret"]);
    let guarded = router(&app(ServerOptions { keys, ..options() }, frontend()));
    let request = || post(MESSAGES, story().to_string());
    let (code, kind, _) = rejection(&guarded, request()).await;
    assert_eq!((code, kind.as_str()), (401, "authentication_error"));
    let mut keyed = request();
    keyed.headers_mut().insert("x-api-key", "secret".parse().unwrap());
    keyed.headers_mut().insert("anthropic-version", "2023-06-01".parse().unwrap());
    assert_eq!(call(&guarded, keyed).await.0, 200);
}
