//! Tool calls in chat completions.

use serde_json::{Map, Value, json};

use crate::support::{CHAT, ask, events, post, rejection, server};

fn weather() -> Value {
    json!({"type": "function", "function": {
        "name": "get_weather",
        "description": "The weather of a place",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"$ref": "#/$defs/place"},
                "unit": {"enum": ["C", "F"]},
            },
            "required": ["place", "unit"],
            "additionalProperties": false,
            "$defs": {"place": {"type": "string", "maxLength": 10}},
        },
    }})
}

fn quoted() -> Value {
    json!({"type": "function", "function": {
        "name": "say \"\\n\" /x/ <[1]> é",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}},
                       "required": ["n"], "additionalProperties": false},
    }})
}

fn chat(more: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [weather(), quoted()],
        "max_tokens": 600,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Checks a call against its tool's schema.
fn check_call(call: &Value) {
    assert_eq!(call["type"], "function", "{call}");
    assert!(call["id"].as_str().unwrap().starts_with("call_"), "{call}");
    let text = call["function"]["arguments"].as_str().unwrap();
    let arguments: Map<String, Value> = serde_json::from_str(text).unwrap();
    let names: Vec<&str> = arguments.keys().map(String::as_str).collect();
    match call["function"]["name"].as_str().unwrap() {
        "get_weather" => {
            assert_eq!(names, ["place", "unit"], "{call}");
            assert!(arguments["place"].as_str().unwrap().chars().count() <= 10, "{call}");
            assert!(["C", "F"].contains(&arguments["unit"].as_str().unwrap()), "{call}");
        }
        "say \"\\n\" /x/ <[1]> é" => {
            assert_eq!(names, ["n"], "{call}");
            assert!(arguments["n"].as_i64().unwrap() <= 99, "{call}");
        }
        name => panic!("{name} was not offered"),
    }
}

/// The messages that a stream adds up to, and how each ended.
fn joined(events: &[Value], replies: usize) -> Vec<(Value, Value)> {
    let mut all = vec![(json!({"content": ""}), Value::Null); replies];
    for choice in events.iter().flat_map(|event| event["choices"].as_array().unwrap()) {
        let (message, end) = &mut all[choice["index"].as_u64().unwrap() as usize];
        let delta = &choice["delta"];
        if let Some(text) = delta["content"].as_str() {
            message["content"] = json!(message["content"].as_str().unwrap().to_owned() + text);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = call["index"].as_u64().unwrap() as usize;
            if call["id"].is_string() {
                assert_eq!(call["function"]["arguments"], "", "the first event has no arguments");
                let first = json!({"id": call["id"], "type": call["type"],
                                   "function": call["function"]});
                if at == 0 {
                    message["tool_calls"] = json!([]);
                }
                message["tool_calls"].as_array_mut().unwrap().push(first);
            } else {
                assert!(call.get("type").is_none() && call["function"].get("name").is_none());
            }
            let arguments = &mut message["tool_calls"][at]["function"]["arguments"];
            let more = call["function"]["arguments"].as_str().unwrap();
            *arguments = json!(arguments.as_str().unwrap().to_owned() + more);
        }
        if !choice["finish_reason"].is_null() {
            assert_eq!(*delta, json!({}));
            *end = choice["finish_reason"].clone();
        }
    }
    all
}

/// The names and arguments of a message's calls.
fn functions_of(message: &Value) -> Vec<&Value> {
    let calls = message["tool_calls"].as_array();
    calls.into_iter().flatten().map(|call| &call["function"]).collect()
}

#[tokio::test]
async fn calls_that_must_come_are_of_their_schema() {
    let server = server();
    let named = json!({"type": "function", "function": {"name": "get_weather"}});
    for (choice, parallel) in
        [(json!("required"), true), (json!("required"), false), (named.clone(), true)]
    {
        for (seed, temperature) in [(1, 0.0), (2, 1.0)] {
            // Several calls take their time.
            let replies = if parallel { 1 } else { 2 };
            let mut body = chat(&json!({
                "tool_choice": choice, "parallel_tool_calls": parallel, "seed": seed,
                "temperature": temperature, "n": replies, "logprobs": true,
            }));
            let whole = ask(&server, CHAT, &body).await;
            body["stream"] = json!(true);
            let streamed = joined(&events(&server, CHAT, &body).await, replies);
            for (choice_of, (message, end)) in
                whole["choices"].as_array().unwrap().iter().zip(&streamed)
            {
                let calls = choice_of["message"]["tool_calls"].as_array().unwrap();
                assert_eq!(choice_of["finish_reason"], "tool_calls", "{choice_of}");
                assert_eq!(choice_of["message"]["content"], Value::Null);
                calls.iter().for_each(check_call);
                assert!(calls.len() <= if parallel && choice != named { 8 } else { 1 });
                if choice == named {
                    assert_eq!(calls[0]["function"]["name"], "get_weather");
                }
                assert_eq!(
                    functions_of(&choice_of["message"]),
                    functions_of(message),
                    "a stream has the same"
                );
                assert_eq!((&message["content"], end), (&json!(""), &json!("tool_calls")));
                assert!(!choice_of["logprobs"]["content"].as_array().unwrap().is_empty());
            }
        }
    }
}

#[tokio::test]
async fn arguments_are_streamed_as_they_are_written() {
    let server = server();
    let body = chat(&json!({"tool_choice": "required", "stream": true, "temperature": 0,
                            "parallel_tool_calls": false}));
    let events = events(&server, CHAT, &body).await;
    let pieces = events.iter().filter(|event| {
        let call = &event["choices"][0]["delta"]["tool_calls"][0];
        call["function"]["arguments"].as_str().is_some_and(|text| !text.is_empty())
    });
    assert!(pieces.count() > 3, "{events:?}");
}

#[tokio::test]
async fn a_call_that_is_cut_says_so() {
    let server = server();
    let body = chat(&json!({"tool_choice": "required", "max_tokens": 45, "temperature": 0,
                            "tools": [weather()]}));
    let answer = ask(&server, CHAT, &body).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "length", "{answer}");
    let arguments = choice["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(arguments.starts_with('{') && serde_json::from_str::<Value>(arguments).is_err());
}

#[tokio::test]
async fn with_auto_the_output_is_text_unless_it_calls() {
    let server = server();
    for more in [
        json!({"temperature": 0, "max_tokens": 30}),
        json!({"temperature": 1, "seed": 4, "max_tokens": 30}),
        // Under a grammar, which allows any text.
        json!({"temperature": 0, "max_tokens": 30, "parallel_tool_calls": false}),
    ] {
        let free = ask(&server, CHAT, &chat(&more)).await;
        let choice = &free["choices"][0];
        assert!(choice["message"].get("tool_calls").is_none(), "{free}");
        assert!(!choice["message"]["content"].as_str().unwrap().is_empty());
        let mut body = chat(&more);
        body["stream"] = json!(true);
        let streamed = joined(&events(&server, CHAT, &body).await, 1);
        assert_eq!(streamed[0].0["content"], choice["message"]["content"]);
        assert_eq!(streamed[0].1, choice["finish_reason"]);
    }
}

#[tokio::test]
async fn a_conversation_continues_with_tool_results() {
    let server = server();
    let called = json!({"id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"place\": \"Paris\", \"unit\": \"C\"}"}});
    let messages = json!([
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]);
    let more = json!({"messages": messages, "max_tokens": 5, "temperature": 0,
                      "return_token_ids": true});
    let answer = ask(&server, CHAT, &chat(&more)).await;
    let prompt = json!({"tokens": answer["prompt_token_ids"]});
    let prompt = ask(&server, "/detokenize", &prompt).await;
    let prompt = prompt["prompt"].as_str().unwrap();
    let applied = json!({"messages": messages, "tools": [weather(), quoted()]});
    assert_eq!(ask(&server, "/apply-template", &applied).await["prompt"], prompt);
    let tokens = ask(&server, "/tokenize", &applied).await;
    assert_eq!(tokens["tokens"], answer["prompt_token_ids"]);
    for part in [
        "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": \
         {\"place\":\"Paris\",\"unit\":\"C\"}}\n</tool_call>",
        "<tool_response>\nrain\n</tool_response>",
    ] {
        assert!(prompt.contains(part), "{prompt}");
    }
    let without = ask(
        &server,
        CHAT,
        &chat(&json!({"tool_choice": "none", "temperature": 0,
        "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})),
    )
    .await;
    let plain = json!({"messages": [{"role": "user", "content": "hi"}], "temperature": 0,
                       "max_tokens": 5});
    let plain = ask(&server, CHAT, &plain).await;
    assert_eq!(without["choices"][0]["message"], plain["choices"][0]["message"]);
}

#[tokio::test]
async fn json_output_may_be_replaced_by_calls() {
    let server = server();
    let schema = json!({"type": "object", "properties": {"a": {"enum": [1, 2]}},
                        "required": ["a"], "additionalProperties": false});
    for (seed, parallel) in [(1, true), (2, false), (3, true)] {
        let mut body = chat(&json!({
            "temperature": 1, "seed": seed, "parallel_tool_calls": parallel,
            "response_format": {"type": "json_schema",
                                "json_schema": {"name": "x", "schema": schema}},
        }));
        for tool in body["tools"].as_array_mut().unwrap() {
            tool["function"]["strict"] = json!(true);
        }
        let answer = ask(&server, CHAT, &body).await;
        let message = &answer["choices"][0]["message"];
        match message["content"].as_str() {
            Some(text) => {
                let value: Value = serde_json::from_str(text).unwrap();
                assert!([json!({"a": 1}), json!({"a": 2})].contains(&value), "{text}");
            }
            None => message["tool_calls"].as_array().unwrap().iter().for_each(check_call),
        }
    }
}

#[tokio::test]
async fn invalid_fields_are_named() {
    let server = server();
    let function = |function: Value| json!([weather(), {"type": "function", "function": function}]);
    let named = json!({"type": "function", "function": {"name": "other"}});
    let not = json!({"name": "f", "parameters": {"properties": {"a": {"not": {}}}}});
    for (field, value, at) in [
        ("tools", json!({}), "tools"),
        ("tools", json!([1]), "tools[0]"),
        ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
        ("tools", json!([{"type": "function"}]), "tools[0].function"),
        ("tools", function(json!({})), "tools[1].function.name"),
        ("tools", function(json!({"name": "a\nb"})), "tools[1].function.name"),
        ("tools", function(json!({"name": "x".repeat(129)})), "tools[1].function.name"),
        (
            "tools",
            function(json!({"name": "f", "description": 1})),
            "tools[1].function.description",
        ),
        ("tools", function(json!({"name": "f", "strict": 1})), "tools[1].function.strict"),
        ("tools", function(json!({"name": "f", "parameters": 1})), "tools[1].function.parameters"),
        (
            "tools",
            function(json!({"name": "f", "parameters": {"type": "string"}})),
            "tools[1].function.parameters.type",
        ),
        ("tools", function(not), "tools[1].function.parameters"),
        ("tools", function(json!({"name": "get_weather"})), "tools[1]"),
        ("tools", json!(vec![weather(); 129]), "tools"),
        ("tool_choice", json!("maybe"), "tool_choice"),
        ("tool_choice", json!({"type": "function"}), "tool_choice"),
        ("tool_choice", named, "tool_choice"),
        ("parallel_tool_calls", json!("yes"), "parallel_tool_calls"),
        ("functions", json!([{"name": "f"}]), "functions"),
        ("decode", json!("diffusion"), "decode"),
    ] {
        let mut body = chat(&json!({"tool_choice": "required"}));
        body[field] = value.clone();
        let (status, _, param) = rejection(&server, post(CHAT, body.to_string())).await;
        assert_eq!((status, param.as_str()), (400, Some(at)), "{field}: {value}");
    }
    let (status, _, param) = rejection(
        &server,
        post(CHAT, chat(&json!({"tools": [], "tool_choice": "required"})).to_string()),
    )
    .await;
    assert_eq!((status, param.as_str()), (400, Some("tool_choice")));
    for (calls, at) in [
        (json!(1), "messages[0].tool_calls"),
        (json!([{}]), "messages[0].tool_calls[0].function.name"),
        (
            json!([{"function": {"name": "f", "arguments": [1]}}]),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ] {
        let messages = json!([{"role": "assistant", "content": null, "tool_calls": calls}]);
        let (status, _, param) =
            rejection(&server, post(CHAT, chat(&json!({"messages": messages})).to_string())).await;
        assert_eq!((status, param.as_str()), (400, Some(at)), "{calls}");
    }
    // Nothing of them is asked for.
    for more in [json!({"tools": []}), json!({"tool_choice": "none"}), json!({"tools": null})] {
        ask(&server, CHAT, &chat(&more)).await;
    }
}

#[tokio::test]
async fn only_allowed_tools_are_called() {
    let server = server();
    let allowed = |mode: &str| {
        let tools = json!([{"type": "function", "function": {"name": "get_weather"}}]);
        json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}})
    };
    let body =
        chat(&json!({"tool_choice": allowed("required"), "temperature": 1, "seed": 3, "n": 4}));
    let answer = ask(&server, CHAT, &body).await;
    for choice in answer["choices"].as_array().unwrap() {
        for call in choice["message"]["tool_calls"].as_array().unwrap() {
            assert_eq!(call["function"]["name"], "get_weather");
            check_call(call);
        }
    }
    let body = chat(&json!({"tool_choice": allowed("auto"), "max_tokens": 4, "temperature": 0}));
    ask(&server, CHAT, &body).await;
    let flat = json!({"type": "allowed_tools", "mode": "required",
                      "tools": [{"type": "function", "name": "f"}]});
    let tools = json!([{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]);
    let body =
        json!({"input": "hi", "tools": tools, "tool_choice": flat, "max_output_tokens": 200});
    let answer = ask(&server, "/v1/responses", &body).await;
    assert_eq!(answer["output"][0]["name"], "f", "{answer}");
    for wrong in [
        json!({"type": "allowed_tools"}),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": []}}),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
        json!({"type": "allowed_tools", "allowed_tools":
               {"mode": "auto", "tools": [{"type": "function", "function": {"name": "x"}}]}}),
    ] {
        let body = chat(&json!({"tool_choice": wrong})).to_string();
        let (status, _, param) = rejection(&server, post(CHAT, body)).await;
        assert_eq!((status, param), (400, json!("tool_choice")), "{wrong}");
    }
}

#[tokio::test]
async fn functions_are_called_in_their_own_form() {
    let server = server();
    let functions = json!([weather()["function"], quoted()["function"]]);
    let mut body = json!({
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "functions": functions, "function_call": {"name": "get_weather"}, "temperature": 0,
        "max_tokens": 300,
    });
    let answer = ask(&server, CHAT, &body).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "function_call", "{answer}");
    let message = &choice["message"];
    assert!(message.get("tool_calls").is_none() && message["content"].is_null(), "{answer}");
    let call = json!({"id": "call_", "type": "function", "function": message["function_call"]});
    check_call(&call);

    body["stream"] = json!(true);
    let events = events(&server, CHAT, &body).await;
    let (mut name, mut arguments) = (String::new(), String::new());
    for event in &events {
        let delta = &event["choices"][0]["delta"];
        assert!(delta.get("tool_calls").is_none());
        name.push_str(delta["function_call"]["name"].as_str().unwrap_or_default());
        arguments.push_str(delta["function_call"]["arguments"].as_str().unwrap_or_default());
    }
    assert_eq!(json!({"name": name, "arguments": arguments}), message["function_call"]);

    // The call and its result, in an earlier message, are those of a tool.
    let history = |call: Value, result: Value| {
        json!({"messages": [{"role": "user", "content": "What is the weather in Paris?"}, call, result],
               "max_tokens": 8, "temperature": 0})
    };
    let function = message["function_call"].clone();
    let old = history(
        json!({"role": "assistant", "content": null, "function_call": function}),
        json!({"role": "function", "name": "get_weather", "content": "rain"}),
    );
    let new = history(
        json!({"role": "assistant", "content": null, "tool_calls":
               [{"id": "call_1", "type": "function", "function": function}]}),
        json!({"role": "tool", "name": "get_weather", "tool_call_id": "call_1", "content": "rain"}),
    );
    let (old, new) = (ask(&server, CHAT, &old).await, ask(&server, CHAT, &new).await);
    assert_eq!(old["choices"][0]["message"], new["choices"][0]["message"]);
    assert_eq!(old["usage"]["prompt_tokens"], new["usage"]["prompt_tokens"]);

    body["stream"] = json!(false);
    body["function_call"] = json!("none");
    body["max_tokens"] = json!(4);
    assert!(
        ask(&server, CHAT, &body).await["choices"][0]["message"].get("function_call").is_none()
    );
    for (field, value, at) in [
        ("functions", json!([{}]), "functions[0].name"),
        ("function_call", json!({"name": "x"}), "function_call"),
        ("function_call", json!(7), "function_call"),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value;
        let (status, _, param) = rejection(&server, post(CHAT, wrong.to_string())).await;
        assert_eq!((status, param.as_str()), (400, Some(at)));
    }
    body["tools"] = json!([weather()]);
    let (status, _, param) = rejection(&server, post(CHAT, body.to_string())).await;
    assert_eq!((status, param), (400, json!("functions")));
}
