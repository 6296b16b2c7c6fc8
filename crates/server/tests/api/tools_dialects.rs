//! Tool calls in other dialects equal those in chat completions.

use axum::Router;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_api::sse::EventReader;

use crate::support::{CHAT, ask, bytes, call, post, server};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const OLLAMA: &str = "/api/chat";

fn schema() -> Value {
    json!({"type": "object", "properties": {"unit": {"enum": ["C", "F"]}, "days": {"enum": [1, 2]}},
           "required": ["unit", "days"], "additionalProperties": false})
}

fn user() -> Value {
    json!([{"role": "user", "content": "What is the weather?"}])
}

/// The name and the arguments of the first call that chats get.
async fn of_chat(server: &Router, choice: Value) -> Value {
    let function = json!({"name": "weather", "description": "x", "parameters": schema()});
    let body = json!({
        "messages": user(), "tools": [{"type": "function", "function": function}],
        "tool_choice": choice, "parallel_tool_calls": false, "temperature": 0, "max_tokens": 100,
    });
    ask(server, CHAT, &body).await["choices"][0]["message"]["tool_calls"][0]["function"].take()
}

async fn stream(server: &Router, path: &str, mut body: Value) -> Vec<Value> {
    body["stream"] = json!(true);
    let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
    assert_eq!(response.status(), 200);
    let data = EventReader::default().push(&bytes(response).await);
    data.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn anthropic_calls() {
    let server = server();
    let expected = of_chat(&server, json!("required")).await;
    let tools = json!([{"name": "weather", "description": "x", "input_schema": schema()}]);
    let body = json!({
        "messages": user(), "tools": tools, "max_tokens": 100, "temperature": 0,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
    });
    let whole = ask(&server, MESSAGES, &body).await;
    assert_eq!(whole["stop_reason"], "tool_use", "{whole}");
    let block = &whole["content"][0];
    assert_eq!((&block["type"], &block["name"]), (&json!("tool_use"), &expected["name"]));
    let arguments: Value = serde_json::from_str(expected["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(block["input"], arguments);
    assert!(block["id"].as_str().unwrap().starts_with("toolu_"));

    let events = stream(&server, MESSAGES, body.clone()).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["message_start", "ping", "content_block_start"], "{kinds:?}");
    assert_eq!(events[2]["content_block"]["input"], json!({}));
    let json: String =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, expected["arguments"].as_str().unwrap());
    let end = ["content_block_stop", "message_delta", "message_stop"];
    assert_eq!(kinds[kinds.len() - 3..], end);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");

    let mut counted = body.clone();
    for field in ["max_tokens", "temperature"] {
        counted.as_object_mut().unwrap().remove(field);
    }
    let counted = ask(&server, "/v1/messages/count_tokens", &counted).await;
    let usage = |name: &str| whole["usage"][name].as_u64().unwrap();
    let prompt = usage("input_tokens") + usage("cache_read_input_tokens");
    assert_eq!(counted["input_tokens"], prompt);

    // What the tool gave goes back.
    let result = json!([{"type": "tool_result", "tool_use_id": block["id"],
                         "content": [{"type": "text", "text": "rain"}]},
                        {"type": "text", "text": "And now?"}]);
    let mut next = body.clone();
    next["tool_choice"] = json!({"type": "none"});
    next["max_tokens"] = json!(8);
    let assistant = json!({"role": "assistant", "content": whole["content"]});
    next["messages"] = json!([user()[0], assistant, {"role": "user", "content": result}]);
    let answer = ask(&server, MESSAGES, &next).await;
    let called = json!({"id": "x", "function": expected});
    let openai = json!({"temperature": 0, "max_tokens": 8, "messages": [
        user()[0], {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "x", "content": "rain"},
        {"role": "user", "content": "And now?"}]});
    let openai = ask(&server, CHAT, &openai).await;
    assert_eq!(answer["content"][0]["text"], openai["choices"][0]["message"]["content"]);

    for (block, at) in [
        (json!({"type": "tool_use", "id": "x", "name": "f"}), "messages[0].content[0].type"),
        (json!({"type": "tool_result"}), "messages[0].content[0].tool_use_id"),
        (
            json!({"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}),
            "messages[0].content[0].content[0].type",
        ),
    ] {
        let mut wrong = body.clone();
        wrong["messages"] = json!([{"role": "user", "content": [block]}]);
        let (status, answer) = call(&server, post(MESSAGES, wrong.to_string())).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.starts_with(at), "{message}");
    }
}

#[tokio::test]
async fn responses_call() {
    let server = server();
    let named = json!({"type": "function", "function": {"name": "weather"}});
    let expected = of_chat(&server, named).await;
    let tools = json!([{"type": "function", "name": "weather", "description": "x",
                        "parameters": schema()}]);
    let body = json!({
        "input": user(), "tools": tools, "max_output_tokens": 100, "temperature": 0,
        "tool_choice": {"type": "function", "name": "weather"},
    });
    let whole = ask(&server, RESPONSES, &body).await;
    assert_eq!(whole["status"], "completed");
    assert_eq!((&whole["tools"], &whole["tool_choice"]), (&tools, &body["tool_choice"]));
    let item = &whole["output"][0];
    assert_eq!((&item["type"], &item["status"]), (&json!("function_call"), &json!("completed")));
    assert_eq!((&item["name"], &item["arguments"]), (&expected["name"], &expected["arguments"]));

    let events = stream(&server, RESPONSES, body.clone()).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let begin = ["response.created", "response.in_progress", "response.output_item.added"];
    assert_eq!(kinds[..3], begin);
    let (deltas, end) = kinds[3..].split_at(kinds.len() - 6);
    assert!(deltas.len() > 3, "{kinds:?}");
    assert!(deltas.iter().all(|kind| *kind == "response.function_call_arguments.delta"));
    let ends = ["function_call_arguments.done", "output_item.done", "completed"];
    assert_eq!(end, ends.map(|kind| format!("response.{kind}")));
    let json: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(expected["arguments"], json);
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"][0]["arguments"], expected["arguments"]);

    let given = json!({"type": "function_call_output", "call_id": item["call_id"],
                       "output": "rain"});
    let next = json!({"input": [user()[0], item, given], "max_output_tokens": 8,
                      "temperature": 0});
    let answer = ask(&server, RESPONSES, &next).await;
    let called = json!({"id": "x", "function": expected});
    let openai = json!({"temperature": 0, "max_tokens": 8, "messages": [
        user()[0], {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "x", "content": "rain"}]});
    let openai = ask(&server, CHAT, &openai).await;
    let text = &answer["output"][0]["content"][0]["text"];
    assert_eq!(*text, openai["choices"][0]["message"]["content"]);
}

#[tokio::test]
async fn ollama_reads_tools_and_results() {
    let server = server();
    let function = json!({"name": "weather", "description": "x", "parameters": schema()});
    let tools = json!([{"type": "function", "function": function}]);
    let called = json!({"function": {"name": "weather", "arguments": {"unit": "C", "days": 1}}});
    let messages = json!([user()[0], {"role": "assistant", "content": "", "tool_calls": [called]},
                          {"role": "tool", "tool_name": "weather", "content": "rain"}]);
    let body = json!({"messages": messages, "tools": tools, "stream": false,
                      "options": {"temperature": 0, "num_predict": 8}});
    let answer = ask(&server, OLLAMA, &body).await;
    let called = json!({"id": "x", "function": {"name": "weather",
                        "arguments": "{\"unit\": \"C\", \"days\": 1}"}});
    let openai = json!({"temperature": 0, "max_tokens": 8, "tools": tools, "messages": [
        user()[0], {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "x", "content": "rain"}]});
    let openai = ask(&server, CHAT, &openai).await;
    assert_eq!(answer["message"]["content"], openai["choices"][0]["message"]["content"]);
    assert!(answer["message"].get("tool_calls").is_none());
    let wrong = json!({"messages": user(), "tools": [{"type": "function"}]});
    let (status, answer) = call(&server, post(OLLAMA, wrong.to_string())).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().starts_with("tools[0].function"));
}
