//! Thinking, separated from the answer in every dialect.

use axum::Router;
use serde_json::{Value, json};
use tower::ServiceExt;
use wf_api::sse::EventReader;
use wf_server::router;

use crate::scripted::{OPEN, PLAIN, SWITCH, Script, frontend};
use crate::support::{CHAT, app, ask, bytes, call, events, get, options, post};

const THINKING: &str = "Let me count: one, two.";
const ANSWER: &str = "There are two.";

const COUNTS: Script = Script { thinking: Some(THINKING), answer: ANSWER };
const CALLS: Script = Script {
    thinking: Some("I call <tool_call>{\"name\": \"add\"}</tool_call> now."),
    answer: "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 2}}\n</tool_call>",
};

fn server(script: Script, template: &str) -> Router {
    router(&app(options(), frontend(script, template)))
}

fn chat(more: Value) -> Value {
    let mut body =
        json!({"messages": [{"role": "user", "content": "How many?"}], "temperature": 0});
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn add_tool() -> Value {
    json!({"name": "add", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}},
                                         "required": ["n"], "additionalProperties": false}})
}

/// Thinking and text of a chat completion.
async fn thought_and_text(server: &Router, more: Value) -> (Value, String) {
    let answer = ask(server, CHAT, &chat(more)).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], message["reasoning"], "{answer}");
    let text = message["content"].as_str().unwrap_or_default().to_owned();
    (message["reasoning_content"].clone(), text)
}

/// Events of a stream by their names.
async fn named_events(server: &Router, path: &str, body: &Value) -> Vec<Value> {
    let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
    let mut reader = EventReader::default();
    let events = reader.push(&bytes(response).await);
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

#[tokio::test]
async fn chat_completions_have_thinking_beside_the_text() {
    for template in [OPEN, SWITCH] {
        let server = server(COUNTS, template);
        let answer = ask(&server, CHAT, &chat(json!({"logprobs": true}))).await;
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["reasoning_content"], THINKING, "{answer}");
        assert_eq!(choice["message"]["reasoning"], THINKING);
        assert_eq!(choice["message"]["content"], ANSWER);
        assert_eq!(choice["finish_reason"], "stop");
        let tokens = choice["logprobs"]["content"].as_array().unwrap();
        let text: String = tokens.iter().map(|one| one["token"].as_str().unwrap()).collect();
        assert!(text.starts_with(ANSWER), "logprobs are those of the text: {text}");
        let usage = &answer["usage"];
        let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
        assert_eq!(reasoning + tokens.len() as u64, usage["completion_tokens"].as_u64().unwrap());
        assert!(reasoning > 5, "{usage}");
    }
}

#[tokio::test]
async fn chat_streams_thinking_before_the_text() {
    let server = server(COUNTS, SWITCH);
    let events = events(&server, CHAT, &chat(json!({"stream": true}))).await;
    let (mut thought, mut text, mut pieces) = (String::new(), String::new(), 0);
    for event in &events {
        let delta = &event["choices"][0]["delta"];
        assert_eq!(delta["reasoning_content"], delta["reasoning"]);
        if let Some(more) = delta["reasoning_content"].as_str() {
            assert!(text.is_empty(), "thinking comes first");
            thought.push_str(more);
            pieces += 1;
        }
        text.push_str(delta["content"].as_str().unwrap_or_default());
    }
    assert_eq!((thought.as_str(), text.as_str()), (THINKING, ANSWER));
    assert!(pieces > 3, "streamed as it is written");
}

#[tokio::test]
async fn requests_turn_thinking_off() {
    for template in [OPEN, SWITCH] {
        let server = server(COUNTS, template);
        for off in [
            json!({"reasoning_effort": "none"}),
            json!({"enable_thinking": false}),
            json!({"think": false}),
            json!({"thinking": {"type": "disabled"}}),
            json!({"thinking_budget": 0}),
            json!({"reasoning": {"enabled": false}}),
            json!({"chat_template_kwargs": {"enable_thinking": false}}),
        ] {
            let (thought, text) = thought_and_text(&server, off.clone()).await;
            assert_eq!((thought, text.as_str()), (Value::Null, ANSWER), "{off}");
        }
        let hidden = thought_and_text(&server, json!({"include_reasoning": false})).await;
        assert_eq!(hidden, (Value::Null, ANSWER.to_owned()));
    }
}

#[tokio::test]
async fn a_budget_ends_thinking_and_the_answer_follows() {
    for template in [OPEN, SWITCH] {
        let server = server(COUNTS, template);
        for cap in [
            json!({"thinking_budget": 3}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 3}}),
            json!({"reasoning": {"max_tokens": 3}}),
            json!({"chat_template_kwargs": {"thinking_budget": 3}}),
        ] {
            let (thought, text) = thought_and_text(&server, cap.clone()).await;
            let thought = thought.as_str().unwrap().to_owned();
            assert!(
                THINKING.starts_with(&thought) && thought.len() < THINKING.len(),
                "{thought:?}"
            );
            assert_eq!(text, ANSWER, "{cap}");
        }
        let (thought, _) = thought_and_text(&server, json!({"reasoning_effort": "low"})).await;
        assert_eq!(thought, THINKING, "it ends before the limit");
    }
}

#[tokio::test]
async fn a_schema_holds_for_the_answer_only() {
    let script = Script { thinking: Some("Not JSON: {"), answer: "{\"n\": 2}" };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
                        "required": ["n"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    for template in [OPEN, SWITCH] {
        let server = server(script, template);
        for more in [json!({}), json!({"decode": "lookup"}), json!({"logprobs": true})] {
            let mut more = more.clone();
            more["response_format"] = format.clone();
            let (thought, text) = thought_and_text(&server, more).await;
            assert_eq!((thought, text.as_str()), (json!("Not JSON: {"), "{\"n\": 2}"));
        }
        // The script's own answer is no JSON: the grammar is that of the answer.
        let prose = app(options(), frontend(COUNTS, template));
        let (thought, text) =
            thought_and_text(&router(&prose), json!({"response_format": format, "max_tokens": 60}))
                .await;
        assert_eq!(thought, THINKING);
        assert!(text.starts_with("{\"n\": "), "{text}");
    }
}

#[tokio::test]
async fn stop_strings_and_tool_calls_are_found_in_the_answer_only() {
    let server = server(COUNTS, OPEN);
    let (thought, text) = thought_and_text(&server, json!({"stop": ["one", " two"]})).await;
    assert_eq!((thought, text.as_str()), (json!(THINKING), "There are"));

    let tools = json!([{"type": "function", "function": add_tool()}]);
    for choice in ["auto", "required"] {
        let server = router(&app(options(), frontend(CALLS, SWITCH)));
        let body = chat(json!({"tools": tools, "tool_choice": choice}));
        let answer = ask(&server, CHAT, &body).await;
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["reasoning_content"], CALLS.thinking.unwrap(), "{answer}");
        let calls = message["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{answer}");
        assert_eq!(calls[0]["function"]["arguments"], "{\"n\": 2}");
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    }
}

#[tokio::test]
async fn thinking_that_fills_the_limit_has_no_answer() {
    let server = server(COUNTS, OPEN);
    let answer = ask(&server, CHAT, &chat(json!({"max_tokens": 4}))).await;
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("length"), &json!(""))
    );
    assert!(THINKING.starts_with(choice["message"]["reasoning_content"].as_str().unwrap()));
    assert_eq!(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

#[tokio::test]
async fn models_that_do_not_think_have_no_thinking() {
    let plain = Script { thinking: None, answer: "<think>two" };
    let (thought, text) = thought_and_text(&server(plain, PLAIN), json!({"think": true})).await;
    assert_eq!((thought, text.as_str()), (Value::Null, "<think>two"));
    let quick = Script { thinking: None, answer: ANSWER };
    let (thought, text) = thought_and_text(&server(quick, SWITCH), json!({})).await;
    assert_eq!((thought, text.as_str()), (Value::Null, ANSWER));
}

#[tokio::test]
async fn earlier_thinking_is_up_to_the_template() {
    let server = server(COUNTS, OPEN);
    let prompt = async |messages: Value| {
        let body = json!({"messages": messages});
        ask(&server, "/apply-template", &body).await["prompt"].as_str().unwrap().to_owned()
    };
    let user = json!({"role": "user", "content": "Hi"});
    for field in ["reasoning_content", "reasoning", "thinking"] {
        let thought = json!({"role": "assistant", "content": "Yes", field: "Hm"});
        assert!(!prompt(json!([user, thought, user])).await.contains("Hm"));
        let kept = prompt(json!([user, thought])).await;
        assert!(kept.contains("<think>Hm</think>Yes"), "{field}: {kept}");
    }
}

#[tokio::test]
async fn responses_have_reasoning_items() {
    let server = server(COUNTS, OPEN);
    let include = json!(["reasoning.encrypted_content"]);
    let mut body = json!({"input": "How many?", "temperature": 0, "include": include});
    let answer = ask(&server, "/v1/responses", &body).await;
    let [reasoning, message] = &answer["output"].as_array().unwrap()[..] else {
        panic!("{answer}")
    };
    assert_eq!(reasoning["type"], "reasoning");
    assert_eq!(reasoning["content"], json!([{"type": "reasoning_text", "text": THINKING}]));
    assert_eq!((&reasoning["summary"], &reasoning["status"]), (&json!([]), &json!("completed")));
    assert_eq!(message["content"][0]["text"], ANSWER);
    assert!(answer["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64() > Some(5));

    body["stream"] = json!(true);
    let events = named_events(&server, "/v1/responses", &body).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let joined = |kind: &str| -> String {
        let deltas = events.iter().filter(|event| event["type"] == kind);
        deltas.map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(joined("response.reasoning_text.delta"), THINKING);
    assert_eq!(joined("response.output_text.delta"), ANSWER);
    let at = |kind: &str| kinds.iter().position(|one| *one == kind).unwrap();
    assert!(at("response.reasoning_text.done") < at("response.output_text.delta"), "{kinds:?}");
    let last = &events.last().unwrap()["response"]["output"];
    assert_eq!(last[0]["content"], reasoning["content"]);
    assert_eq!(events[at("response.output_item.added")]["item"]["type"], "reasoning");
    body.as_object_mut().unwrap().remove("stream");

    // The item comes back with the next request, with its content or with the encoded one alone.
    let mut encoded = reasoning.clone();
    encoded["content"] = Value::Null;
    for item in [reasoning, &encoded] {
        body["input"] = json!([{"role": "user", "content": "How many?"}, item, message,
                               {"role": "user", "content": "Sure?"}]);
        assert_eq!(
            ask(&server, "/v1/responses", &body).await["output"][1]["content"][0]["text"],
            ANSWER
        );
    }
    body["reasoning"] = json!({"effort": "none"});
    let off = ask(&server, "/v1/responses", &body).await;
    assert_eq!(off["output"].as_array().unwrap().len(), 1, "{off}");
    // Thinking that another server encrypted.
    encoded["encrypted_content"] = json!("gAAAAABo-_8=");
    body["input"] = json!([{"role": "user", "content": "How many?"}, encoded, message,
                           {"role": "user", "content": "Sure?"}]);
    let response = server.clone().oneshot(post("/v1/responses", body.to_string())).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-wf-ignored-fields"], "input[1].encrypted_content");
}

#[tokio::test]
async fn messages_have_thinking_blocks_if_they_are_enabled() {
    let server = server(COUNTS, SWITCH);
    let mut body = chat(json!({"max_tokens": 200}));
    let plain = ask(&server, "/v1/messages", &body).await;
    assert_eq!(plain["content"], json!([{"type": "text", "text": ANSWER}]), "off by default");
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 100});
    let answer = ask(&server, "/v1/messages", &body).await;
    let [thought, text] = &answer["content"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&thought["type"], &thought["thinking"]), (&json!("thinking"), &json!(THINKING)));
    assert!(!thought["signature"].as_str().unwrap().is_empty());
    assert_eq!((&text["type"], &text["text"]), (&json!("text"), &json!(ANSWER)));

    body["stream"] = json!(true);
    let events = named_events(&server, "/v1/messages", &body).await;
    let delta_of = |index: u64, kind: &str, field: &str| -> String {
        let of =
            events.iter().filter(|event| event["index"] == index && event["delta"]["type"] == kind);
        of.map(|event| event["delta"][field].as_str().unwrap()).collect()
    };
    assert_eq!(delta_of(0, "thinking_delta", "thinking"), THINKING);
    assert_eq!(delta_of(0, "signature_delta", "signature"), thought["signature"].as_str().unwrap());
    assert_eq!(delta_of(1, "text_delta", "text"), ANSWER);
    let stops = events.iter().filter(|event| event["type"] == "content_block_stop");
    assert_eq!(stops.map(|event| event["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);

    body["stream"] = json!(false);
    body["messages"] = json!([{"role": "user", "content": "How many?"},
        {"role": "assistant", "content": [thought, text]}, {"role": "user", "content": "Sure?"}]);
    assert_eq!(ask(&server, "/v1/messages", &body).await["content"][1]["text"], ANSWER);
    body["max_tokens"] = json!(3);
    let cut = ask(&server, "/v1/messages", &body).await;
    assert_eq!(cut["stop_reason"], "max_tokens");
    assert_eq!(cut["content"].as_array().unwrap().len(), 2, "{cut}");
}

#[tokio::test]
async fn ollama_has_thinking_beside_the_text() {
    let server = server(COUNTS, SWITCH);
    let shown = ask(&server, "/api/show", &json!({"model": "demo"})).await;
    assert_eq!(shown["capabilities"], json!(["completion", "tools", "embedding", "thinking"]));
    let options = json!({"temperature": 0});
    for (path, field) in [("/api/chat", "/message"), ("/api/generate", "")] {
        let mut body = json!({"prompt": "How many?", "options": options, "stream": false});
        if path == "/api/chat" {
            body = json!({"messages": [{"role": "user", "content": "How many?"}],
                          "options": options, "stream": false});
        }
        let text_field = if path == "/api/chat" { "content" } else { "response" };
        for (think, thought) in [
            (json!(null), Some(THINKING)),
            (json!(true), Some(THINKING)),
            (json!("high"), Some(THINKING)),
            (json!(false), None),
        ] {
            body["think"] = think.clone();
            let answer = ask(&server, path, &body).await;
            let message = answer.pointer(field).unwrap();
            assert_eq!(
                message.get("thinking").and_then(Value::as_str),
                thought,
                "{think}: {answer}"
            );
            assert_eq!(message[text_field], ANSWER);
        }
        body["stream"] = json!(true);
        body["think"] = json!(true);
        let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
        let lines = String::from_utf8(bytes(response).await).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let joined = |name: &str| -> String {
            lines.iter().filter_map(|line| line.pointer(field)?.get(name)?.as_str()).collect()
        };
        assert_eq!((joined("thinking"), joined(text_field)), (THINKING.into(), ANSWER.into()));
    }
}

#[tokio::test]
async fn completions_keep_the_tags() {
    let server = server(COUNTS, OPEN);
    let body = json!({"prompt": "assistant:<think>\n", "temperature": 0, "max_tokens": 100});
    let answer = ask(&server, "/v1/completions", &body).await;
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("{THINKING}\n</think>{ANSWER}"));
}

#[tokio::test]
async fn props_list_the_efforts_of_models_that_think() {
    let (_, props) = call(&server(COUNTS, SWITCH), get("/props")).await;
    let efforts = props["thinking"]["efforts"].as_array().unwrap();
    let name_and_limit = |effort: &Value| (effort["name"].clone(), effort["max_tokens"].clone());
    let efforts: Vec<_> = efforts.iter().map(name_and_limit).collect();
    let expected = [
        (json!("none"), json!(0)),
        (json!("minimal"), json!(256)),
        (json!("low"), json!(512)),
        (json!("medium"), json!(2048)),
        (json!("high"), json!(null)),
    ];
    assert_eq!(efforts, expected);
    let (_, props) = call(&server(COUNTS, PLAIN), get("/props")).await;
    assert_eq!(props["thinking"], json!(null), "{props}");
}
