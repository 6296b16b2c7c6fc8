//! Structured output.

use serde_json::{Value, json};

use crate::support::{CHAT, COMPLETE, ask, call, events, post, server};

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": false,
    })
}

fn check_person(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let fields = value.as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["name", "age", "tags"], "{text}");
    assert!(fields["name"].as_str().unwrap().chars().count() <= 12, "{text}");
    assert!(fields["age"].as_u64().unwrap() <= 150, "{text}");
    let tags = fields["tags"].as_array().unwrap();
    assert!(tags.len() <= 3 && tags.iter().all(|tag| tag == "red" || tag == "green"), "{text}");
}

fn chat(form: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Who lives there?"}],
        "max_tokens": 100,
    });
    body.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
    body
}

fn strict(schema: &Value) -> Value {
    let inner = json!({"name": "person", "strict": true, "schema": schema});
    json!({"response_format": {"type": "json_schema", "json_schema": inner}})
}

#[tokio::test]
async fn chat_output_follows_a_json_schema() {
    let server = server();
    for (seed, temperature) in [(1, 0.0), (2, 1.0), (3, 2.0)] {
        let mut body = chat(&strict(&person()));
        body["seed"] = json!(seed);
        body["temperature"] = json!(temperature);
        body["n"] = json!(2);
        body["logprobs"] = json!(true);
        let answer = ask(&server, CHAT, &body).await;
        for choice in answer["choices"].as_array().unwrap() {
            assert_eq!(choice["finish_reason"], "stop", "{choice}");
            check_person(choice["message"]["content"].as_str().unwrap());
            assert!(choice["logprobs"]["content"].as_array().unwrap().len() > 5);
        }
        body["stream"] = json!(true);
        let mut texts = [String::new(), String::new()];
        for event in events(&server, CHAT, &body).await {
            for choice in event["choices"].as_array().unwrap() {
                let text = choice["delta"]["content"].as_str().unwrap_or_default();
                texts[choice["index"].as_u64().unwrap() as usize] += text;
            }
        }
        for (text, choice) in texts.iter().zip(answer["choices"].as_array().unwrap()) {
            assert_eq!(choice["message"]["content"], json!(text), "a stream says the same");
        }
    }
}

#[tokio::test]
async fn all_routes_follow_all_constraints() {
    let server = server();
    let choices = ["a cat", "a dog"];
    for form in [
        json!({"guided_choice": choices}),
        json!({"structured_outputs": {"choice": choices}}),
        json!({"regex": "a (cat|dog)"}),
        json!({"ebnf": "start: \"a \" ANIMAL\nANIMAL: \"cat\" | \"dog\""}),
        json!({"ebnf": "root ::= \"a \" animal # which?\nanimal ::= \"cat\" | \"dog\""}),
    ] {
        let answer = ask(&server, CHAT, &chat(&form)).await;
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap();
        assert!(choices.contains(&text), "{form}: {text}");
        assert_eq!(choice["finish_reason"], "stop", "{form}");

        let mut body = json!({"prompt": "I see", "ignore_eos": true, "min_tokens": 9});
        body.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
        let answer = ask(&server, COMPLETE, &body).await;
        let text = answer["choices"][0]["text"].as_str().unwrap();
        assert!(choices.contains(&text), "the form comes before lengths: {text}");
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{form}");

        let body = json!({"text": "I see", "sampling_params": form});
        let answer = ask(&server, "/generate", &body).await;
        assert!(choices.contains(&answer["text"].as_str().unwrap()), "{answer}");
        assert_eq!(answer["meta_info"]["finish_reason"]["type"], "stop", "{answer}");
    }
    let schema = person().to_string();
    let body = json!({"text": "I see", "sampling_params": {"json_schema": schema}});
    check_person(ask(&server, "/generate", &body).await["text"].as_str().unwrap());
}

#[tokio::test]
async fn all_dialects_generate_the_same_text() {
    let server = server();
    let mut openai = chat(&strict(&person()));
    openai["temperature"] = json!(0);
    let openai = ask(&server, CHAT, &openai).await;
    let text = openai["choices"][0]["message"]["content"].as_str().unwrap();
    check_person(text);

    let asked = "Who lives there?";
    let said = json!([{"role": "user", "content": asked}]);
    let format = json!({"type": "json_schema", "name": "person", "schema": person()});
    let body = json!({"input": asked, "temperature": 0, "text": {"format": format}});
    let answer = ask(&server, "/v1/responses", &body).await;
    assert_eq!(answer["output"][0]["content"][0]["text"], text);
    assert_eq!((&answer["status"], &answer["text"]["format"]), (&json!("completed"), &format));

    let plain = json!({"input": asked, "max_output_tokens": 2, "text": {"format": null}});
    let answer = ask(&server, "/v1/responses", &plain).await;
    assert_eq!(
        answer["text"]["format"],
        json!({"type": "text"}),
        "the form that was not asked for"
    );

    for place in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        let mut body = json!({"messages": said, "max_tokens": 100, "temperature": 0});
        body.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        let answer = ask(&server, "/v1/messages", &body).await;
        assert_eq!(answer["content"][0]["text"], text);
        assert_eq!(answer["stop_reason"], "end_turn");
        body.as_object_mut().unwrap().remove("temperature");
        body.as_object_mut().unwrap().remove("max_tokens");
        let counted = ask(&server, "/v1/messages/count_tokens", &body).await;
        assert_eq!(counted["input_tokens"], openai["usage"]["prompt_tokens"]);
    }

    let ollama = json!({"stream": false, "options": {"temperature": 0}, "format": person(), "messages": said});
    let answer = ask(&server, "/api/chat", &ollama).await;
    assert_eq!(
        (&answer["message"]["content"], &answer["done_reason"]),
        (&json!(text), &json!("stop"))
    );
    let generate = json!({"stream": false, "options": {"temperature": 0}, "format": person(), "prompt": asked});
    assert_eq!(ask(&server, "/api/generate", &generate).await["response"], text);
}

#[tokio::test]
async fn one_of_needs_schemas_that_exclude_each_other() {
    let server = server();
    let kind = |name: &str, field: &str| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": name}, field: {"type": "boolean"}},
            "required": ["kind", field],
            "additionalProperties": false,
        })
    };
    let apart = strict(&json!({"oneOf": [kind("cat", "purrs"), kind("dog", "barks")]}));
    let answer = ask(&server, CHAT, &chat(&apart)).await;
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    let field = if value["kind"] == "cat" { "purrs" } else { "barks" };
    assert!(value[field].is_boolean() && value.as_object().unwrap().len() == 2, "{text}");

    let alike = strict(&json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]}));
    let (status, answer) = call(&server, post(CHAT, chat(&alike).to_string())).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("oneOf"), "{message}");
}

#[tokio::test]
async fn a_limit_cuts_and_a_stop_string_ends() {
    let server = server();
    let mut body = chat(&strict(&person()));
    body["max_tokens"] = json!(3);
    let answer = ask(&server, CHAT, &body).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "length");

    body["max_tokens"] = json!(100);
    body["stop"] = json!(["\"age\""]);
    let answer = ask(&server, CHAT, &body).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with('{') && text.contains("\"name\"") && !text.contains("age"), "{text}");
}

#[tokio::test]
async fn unsupported_constraints_are_rejected_by_name() {
    let server = server();
    for (field, form, said) in [
        ("response_format", strict(&json!({"type": "nonsense"})), "nonsense"),
        ("response_format", strict(&json!({"type": "string", "not": {}})), "not"),
        ("response_format", strict(&json!({"$ref": "https://example.com/s"})), "ref"),
        (
            "response_format",
            strict(&json!({"type": "string", "maxLength": 6000})),
            "maxLength: 6000: must be at most 4000",
        ),
        ("regex", json!({"regex": "(a"}), "unclosed"),
        ("regex", json!({"regex": "(?=a)b"}), "look"),
        ("ebnf", json!({"ebnf": "start: missing"}), "missing"),
        ("grammar", json!({"grammar": "nothing of the kind"}), "1"),
        ("guided_choice", json!({"guided_choice": []}), "at least one"),
    ] {
        let (status, answer) = call(&server, post(CHAT, chat(&form).to_string())).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(field)), "{form}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
        assert!(message.contains(said), "{form}: {message}");
    }
}
