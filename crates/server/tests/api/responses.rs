//! The responses API generates the same text as chat completions.

use serde_json::{Value, json};
use tower::ServiceExt;
use wf_api::sse::EventReader;

use crate::support::{CHAT, ask, bytes, post, rejection, server};

const RESPONSES: &str = "/v1/responses";

fn story() -> Value {
    json!({"model": "demo", "input": "Tell me a story about a cat", "instructions": "Be kind",
           "max_output_tokens": 24, "temperature": 0, "store": false, "metadata": {"a": "b"}})
}

fn with(field: &str, value: Value) -> Value {
    let mut body = story();
    body[field] = value;
    body
}

#[tokio::test]
async fn the_text_equals_that_of_chat_completions() {
    let server = server();
    let openai = json!({"max_tokens": 24, "temperature": 0,
        "messages": [{"role": "system", "content": "Be kind"},
                     {"role": "user", "content": "Tell me a story about a cat"}]});
    let openai = ask(&server, CHAT, &openai).await;
    let parts = json!([{"type": "input_text", "text": "Tell me a story about a cat"}]);
    for input in [
        json!("Tell me a story about a cat"),
        json!([{"role": "user", "content": "Tell me a story about a cat"}]),
        json!([{"type": "message", "role": "user", "content": parts}]),
    ] {
        let answer = ask(&server, RESPONSES, &with("input", input)).await;
        let output = &answer["output"][0];
        let text = &openai["choices"][0]["message"]["content"];
        assert_eq!(output["content"][0]["text"], *text);
        assert_eq!(output["content"][0]["type"], "output_text");
        assert_eq!((&output["type"], &output["role"]), (&json!("message"), &json!("assistant")));
        assert_eq!(answer["status"], "incomplete");
        assert_eq!(answer["incomplete_details"], json!({"reason": "max_output_tokens"}));
        assert_eq!(answer["usage"]["input_tokens"], openai["usage"]["prompt_tokens"]);
        assert_eq!(answer["usage"]["output_tokens"], 24);
        assert_eq!(answer["metadata"], json!({"a": "b"}));
        assert_eq!((&answer["store"], &answer["object"]), (&json!(false), &json!("response")));
    }
}

#[tokio::test]
async fn a_small_top_p_leaves_the_best_token_at_any_temperature() {
    let server = server();
    let greedy = ask(&server, RESPONSES, &story()).await;
    let mut body = with("temperature", json!(2));
    body["top_p"] = json!(0.0001);
    let answer = ask(&server, RESPONSES, &body).await;
    assert_eq!(answer["output"][0]["content"], greedy["output"][0]["content"]);
}

#[tokio::test]
async fn output_can_be_sent_back_as_input() {
    let server = server();
    let first = ask(&server, RESPONSES, &story()).await;
    let question = json!({"role": "user", "content": "Tell me a story about a cat"});
    let more = json!({"role": "user", "content": "And then?"});
    let input = json!([question, first["output"][0], more]);
    let second = ask(&server, RESPONSES, &with("input", input)).await;
    let answer = &first["output"][0]["content"][0]["text"];
    let openai = json!({"max_tokens": 24, "temperature": 0,
        "messages": [{"role": "system", "content": "Be kind"}, question,
                     {"role": "assistant", "content": answer}, more]});
    let openai = ask(&server, CHAT, &openai).await;
    let text = &second["output"][0]["content"][0]["text"];
    assert_eq!(*text, openai["choices"][0]["message"]["content"]);
}

#[tokio::test]
async fn streams_and_whole_responses_agree() {
    let server = server();
    let whole = ask(&server, RESPONSES, &story()).await;
    let request = post(RESPONSES, with("stream", json!(true)).to_string());
    let body = bytes(server.clone().oneshot(request).await.unwrap()).await;
    let data = EventReader::default().push(&body);
    let events: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let lines = String::from_utf8(body).unwrap();
    let names: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, kinds, "an event is called what it is");
    let begin = ["created", "in_progress", "output_item.added", "content_part.added"];
    assert_eq!(kinds[..4], begin.map(|kind| format!("response.{kind}")));
    let (deltas, end) = kinds[4..].split_at(kinds.len() - 8);
    assert!(deltas.len() > 10 && deltas.iter().all(|k| *k == "response.output_text.delta"));
    let done = ["output_text.done", "content_part.done", "output_item.done", "incomplete"];
    assert_eq!(end, done.map(|kind| format!("response.{kind}")));
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, whole["output"][0]["content"][0]["text"].as_str().unwrap());
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(last["usage"]["output_tokens"], 24);
    assert_eq!(events[0]["response"]["output"], json!([]));
    assert_eq!(events[0]["response"]["status"], "in_progress");
    assert_eq!(events[2]["item"]["content"], json!([]));
    assert_eq!(events[3]["part"]["text"], "");
}

#[tokio::test]
async fn invalid_fields_are_named() {
    let server = server();
    let image = json!([{"role": "user", "content": [{"type": "input_image"}]}]);
    for (field, value, at) in [
        ("input", Value::Null, "input"),
        ("input", json!([]), "input"),
        ("input", json!(7), "input"),
        ("input", image, "input[0].content[0].type"),
        ("input", json!([{"role": "robot", "content": "x"}]), "input[0].role"),
        ("input", json!([{"role": "user"}]), "input[0].content"),
        ("input", json!([{"type": "sorcery"}]), "input[0].type"),
        ("input", json!([{"type": "function_call_output"}]), "input[0].call_id"),
        ("input", json!([{"type": "function_call", "call_id": "x"}]), "input[0].name"),
        ("max_output_tokens", json!(0), "max_output_tokens"),
        ("temperature", json!(-1), "temperature"),
        ("previous_response_id", json!("resp_1"), "previous_response_id"),
        ("conversation", json!("conv_1"), "conversation"),
        ("background", json!(true), "background"),
        ("tools", json!([{"type": "sorcery"}]), "tools[0].type"),
        ("tool_choice", json!("required"), "tool_choice"),
        ("text", json!({"format": {"type": "xml"}}), "text"),
        ("max_tokens", json!(5), "max_tokens"),
    ] {
        let request = post(RESPONSES, with(field, value.clone()).to_string());
        let (status, _, param) = rejection(&server, request).await;
        assert_eq!((status, param.as_str()), (400, Some(at)), "{field}: {value}");
    }
    let request = post(RESPONSES, with("max_output_tokens", json!(5000)).to_string());
    let (status, code, param) = rejection(&server, request).await;
    assert_eq!((status, code.as_str()), (400, "context_length_exceeded"));
    assert_eq!(param, "input");
}

#[tokio::test]
async fn items_of_other_tools_can_be_sent_back() {
    let server = server();
    let user = |text: &str| json!({"role": "user", "content": text});
    let exec = json!({"type": "exec", "command": ["ls"], "env": {}});
    let input = json!([
        user("List the files"),
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo-_8="},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"},
        {"type": "local_shell_call", "id": "l1", "call_id": "c2", "status": "completed", "action": exec},
        {"type": "local_shell_call_output", "id": "c2", "output": "a.txt"},
        user("And then?"),
    ]);
    let body = with("input", input);
    let response = server.clone().oneshot(post(RESPONSES, body.to_string())).await.unwrap();
    assert_eq!(response.status(), 200);
    let ignored = &response.headers()["x-wf-ignored-fields"];
    assert_eq!(ignored, "input[1].encrypted_content, input[2]:web_search_call");
    let answer: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    // The calls are those of functions with the same input.
    let call = |id: &str, name: &str, arguments: Value| {
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}}]})
    };
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let openai = json!({"max_tokens": 24, "temperature": 0, "messages": [
        {"role": "system", "content": "Be kind"}, user("List the files"),
        call("c1", "apply_patch", json!({"input": "*** Begin"})), result("c1", "Done"),
        call("c2", "local_shell", exec), result("c2", "a.txt"), user("And then?")]});
    let openai = ask(&server, CHAT, &openai).await;
    assert_eq!(answer["usage"]["input_tokens"], openai["usage"]["prompt_tokens"]);
    let text = &answer["output"][0]["content"][0]["text"];
    assert_eq!(*text, openai["choices"][0]["message"]["content"]);
    for (item, at) in [
        (json!({"type": "custom_tool_call", "call_id": "c", "name": "x"}), "input[0].input"),
        (json!({"type": "local_shell_call", "call_id": "c", "action": 1}), "input[0].action"),
        (json!({"type": "local_shell_call_output", "output": "x"}), "input[0].id"),
        (
            json!({"type": "custom_tool_call_output", "call_id": "c", "output": 1}),
            "input[0].output",
        ),
    ] {
        let request = post(RESPONSES, with("input", json!([item])).to_string());
        let (status, _, param) = rejection(&server, request).await;
        assert_eq!((status, param.as_str()), (400, Some(at)), "{item}");
    }
}

#[tokio::test]
async fn logprobs_and_tools_of_other_types() {
    let server = server();
    let mut body = json!({"input": "hi", "max_output_tokens": 5, "temperature": 0, "top_logprobs": 2,
        "include": ["message.output_text.logprobs"], "client_metadata": {"a": "b"},
        "tools": [{"type": "web_search"}, {"type": "custom", "name": "x"}]});
    let response = server.clone().oneshot(post("/v1/responses", body.to_string())).await.unwrap();
    let ignored = response.headers()["x-wf-ignored-fields"].clone();
    assert_eq!(ignored, "tools[0]:web_search, tools[1]:custom");
    let answer: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    let part = &answer["output"][0]["content"][0];
    let logprobs = part["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), 5, "{answer}");
    assert!(logprobs.iter().all(|one| one["top_logprobs"].as_array().unwrap().len() == 2));
    let text: String = logprobs.iter().map(|one| one["token"].as_str().unwrap()).collect();
    assert_eq!(text.trim_start(), part["text"].as_str().unwrap().trim_start());
    assert_eq!(answer["tools"], json!([]));
    body["include"] = json!(["file_search_call.results"]);
    let (status, code, param) = rejection(&server, post("/v1/responses", body.to_string())).await;
    assert_eq!((status, code.as_str(), param), (400, "unsupported_parameter", json!("include")));
}
