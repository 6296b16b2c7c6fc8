//! Fields out of range are rejected by name.

use serde_json::{Value, json};
use tower::ServiceExt;
use wf_server::{Limits, ServerOptions, UnknownFieldPolicy, router};

use crate::support::{CHAT, COMPLETE, app, call, frontend, options, post, rejection, server};

fn chat(field: &str, value: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1});
    body[field] = value.clone();
    body
}

/// Values that fit no number, and fields that are numbers.
const NUMBERS: [&str; 12] = [
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "top_logprobs",
    "priority",
];

#[tokio::test]
async fn numbers_are_numbers() {
    let server = server();
    for field in NUMBERS {
        for value in [json!("1"), json!([1]), json!({}), json!(true), json!([])] {
            let request = post(CHAT, chat(field, &value).to_string());
            let (status, _, param) = rejection(&server, request).await;
            assert_eq!((status, param.as_str()), (400, Some(field)), "{field}: {value}");
        }
    }
}

#[tokio::test]
async fn values_out_of_range_are_rejected() {
    let server = server();
    let long = "x".repeat(257);
    for (field, wrong) in [
        ("temperature", vec![json!(-0.1), json!(100.1), json!(1e39)]),
        ("top_p", vec![json!(0), json!(1.01), json!(-1)]),
        ("min_p", vec![json!(-0.01), json!(1.01)]),
        ("repetition_penalty", vec![json!(0), json!(-1), json!(10.5)]),
        ("presence_penalty", vec![json!(-2.01), json!(2.01)]),
        ("frequency_penalty", vec![json!(-2.01), json!(2.01)]),
        ("top_k", vec![json!(-2), json!(1.5)]),
        ("max_tokens", vec![json!(0), json!(-1), json!(1.5), json!(4_294_967_296_u64)]),
        ("min_tokens", vec![json!(2), json!(-1)]),
        ("n", vec![json!(0), json!(9), json!(-1), json!(1e9)]),
        ("top_logprobs", vec![json!(21), json!(5)]),
        ("seed", vec![json!(1e30), json!(0.5)]),
        ("stop", vec![json!(""), json!([""]), json!([1]), json!(long), json!(vec!["x"; 17])]),
        ("stop_token_ids", vec![json!([8192]), json!([-1]), json!("1"), json!(vec![1; 1025])]),
        ("logit_bias", vec![json!({"8192": 1}), json!({"x": 1}), json!({"1": 101}), json!([1])]),
        ("stream_options", vec![json!({"include_usage": true}), json!(1)]),
        ("messages", vec![json!([]), json!("hi"), json!({}), json!(1)]),
        ("model", vec![json!("gpt-4"), json!(1)]),
        ("chat_template_kwargs", vec![json!([]), json!("x")]),
        ("cache_salt", vec![json!(1)]),
        ("stream", vec![json!("true"), json!(1)]),
    ] {
        for value in wrong {
            let request = post(CHAT, chat(field, &value).to_string());
            let (status, _, param) = rejection(&server, request).await;
            assert!(matches!(status, 400 | 404), "{field}: {value}: {status}");
            assert!(
                param.as_str().is_some_and(|param| param.starts_with(field)),
                "{field}: {value}"
            );
        }
    }
    for (field, right) in [
        ("temperature", vec![json!(0), json!(100), json!(null)]),
        ("top_p", vec![json!(0.0001), json!(1)]),
        ("top_k", vec![json!(-1), json!(0), json!(1_000_000)]),
        ("repetition_penalty", vec![json!(0.01), json!(10)]),
        ("presence_penalty", vec![json!(-2), json!(2)]),
        ("n", vec![json!(1), json!(8)]),
        ("seed", vec![json!(-1), json!(i64::MAX), json!(u64::MAX)]),
        ("stop", vec![json!("x".repeat(256)), json!(vec!["x"; 16]), json!([])]),
        ("stop_token_ids", vec![json!([8191]), json!([])]),
        ("logit_bias", vec![json!({"8191": 100, "0": -100})]),
        ("model", vec![json!("demo"), json!("other-name"), json!("unknown")]),
        ("priority", vec![json!(-5)]),
    ] {
        for value in right {
            let (status, answer) = call(&server, post(CHAT, chat(field, &value).to_string())).await;
            assert_eq!(status, 200, "{field}: {value}: {answer}");
        }
    }
}

#[tokio::test]
async fn invalid_messages_are_rejected_by_path() {
    let server = server();
    let image = json!([{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]);
    for (messages, at) in [
        (json!([{"content": "x"}]), "messages[0]"),
        (json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
        (json!([{"role": "user"}]), "messages[0].content"),
        (json!([{"role": "user", "content": 7}]), "messages[0].content"),
        (json!([{"role": "user", "content": image}]), "messages[0].content[0].type"),
        (json!([{"role": "user", "content": "x"}, 7]), "messages[1]"),
    ] {
        let request = post(CHAT, json!({"messages": messages}).to_string());
        let (status, _, param) = rejection(&server, request).await;
        assert_eq!((status, param.as_str()), (400, Some(at)), "{messages}");
    }
    let parts = json!([{"type": "text", "text": "Tell me"}, {"type": "text", "text": "a story"}]);
    let body = json!({"messages": [{"role": "developer", "content": "Be kind"},
                                   {"role": "user", "content": parts}], "max_tokens": 1});
    assert_eq!(call(&server, post(CHAT, body.to_string())).await.0, 200);
}

#[tokio::test]
async fn invalid_prompts_are_rejected() {
    let server = server();
    for (body, code) in [
        (json!({}), "invalid_value"),
        (json!({"prompt": []}), "invalid_value"),
        (json!({"prompt": [[]]}), "invalid_value"),
        (json!({"prompt": [8192]}), "invalid_value"),
        (json!({"prompt": vec!["a"; 257]}), "invalid_value"),
        (json!({"prompt": "a", "logprobs": 21}), "invalid_value"),
        (json!({"prompt": "a", "max_tokens": 0}), "invalid_value"),
        (json!({"prompt": "a", "best_of": 3}), "unsupported_parameter"),
        (json!({"prompt": "a", "suffix": "b"}), "unsupported_parameter"),
        (json!({"prompt": "a", "n_discard": -1}), "unknown_parameter"),
        (json!({"prompt": vec![5; 2048]}), "context_length_exceeded"),
        (json!({"prompt": vec![5; 2000], "max_tokens": 49}), "context_length_exceeded"),
        (json!({"prompt": "word ".repeat(3000)}), "context_length_exceeded"),
    ] {
        let (status, found, _) = rejection(&server, post(COMPLETE, body.to_string())).await;
        assert_eq!((status, found.as_str()), (400, code));
    }
    let fits = json!({"prompt": vec![5; 2000], "max_tokens": 48});
    assert_eq!(call(&server, post(COMPLETE, fits.to_string())).await.0, 200);
}

#[tokio::test]
async fn unsupported_fields_are_rejected_unless_harmless() {
    let server = server();
    for (field, value) in [
        ("modalities", json!(["audio"])),
        ("audio", json!({})),
        ("structural_tag", json!("{}")),
        ("chat_template", json!("{{ x }}")),
    ] {
        let request = post(CHAT, chat(field, &value).to_string());
        let (status, code, param) = rejection(&server, request).await;
        let found = (status, code.as_str(), param.as_str());
        assert_eq!(found, (400, "unsupported_parameter", Some(field)));
    }
    for (field, value) in [
        ("tools", json!([])),
        ("tool_choice", json!("none")),
        ("response_format", json!({"type": "text"})),
        ("modalities", json!(["text"])),
        ("user", json!("u")),
        ("metadata", json!({"a": "b"})),
        ("store", json!(false)),
        ("service_tier", json!("auto")),
        ("reasoning_effort", json!("low")),
        ("separate_reasoning", json!(true)),
        ("no_stop_trim", json!(false)),
    ] {
        let (status, answer) = call(&server, post(CHAT, chat(field, &value).to_string())).await;
        assert_eq!(status, 200, "{field}: {answer}");
    }
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let limits = Limits { body_len: 1000, ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend()));
    let sized = |len: usize| {
        let body = chat("user", &json!(""));
        let room = len - body.to_string().len();
        chat("user", &json!("x".repeat(room))).to_string()
    };
    assert_eq!(call(&server, post(CHAT, sized(1000))).await.0, 200);
    assert_eq!(rejection(&server, post(CHAT, sized(1001))).await.0, 413);
    for body in ["", "{", "[]", "null", "\"x\"", "{\"messages\": [}", "\u{0}", "{}}", "[[[[["] {
        assert_eq!(rejection(&server, post(CHAT, body)).await.0, 400, "{body:?}");
    }
    let invalid =
        [b"{\"messages\": [{\"role\": \"user\", \"content\": \"".as_slice(), b"\xff\"}]}"];
    assert_eq!(rejection(&server, post(CHAT, invalid.concat())).await.0, 400);
    let surrogate = r#"{"messages": [{"role": "user", "content": "\ud800"}]}"#;
    assert_eq!(rejection(&server, post(CHAT, surrogate)).await.0, 400);
    for (name, value, expected) in [
        ("content-type", "text/plain", 200),
        ("content-type", "application/x-www-form-urlencoded", 200),
        ("content-encoding", "gzip", 415),
        ("content-type", "application/json; charset=utf-8", 200),
    ] {
        let mut request = post(CHAT, chat("user", &json!("u")).to_string());
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(call(&server, request).await.0, expected, "{name}: {value}");
    }
    let mut request = post(CHAT, chat("user", &json!("u")).to_string());
    request.headers_mut().remove("content-type");
    assert_eq!(call(&server, request).await.0, 200, "without a content type");
    // What a form on another site can send.
    for origin in ["null", "https://evil.example"] {
        let mut request = post(CHAT, chat("user", &json!("u")).to_string());
        request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        request.headers_mut().insert("origin", origin.parse().unwrap());
        assert_eq!(call(&server, request).await.0, 403, "{origin}");
    }
}

#[tokio::test]
async fn bodies_of_many_small_values_are_rejected() {
    let server = server();
    for (value, expected) in [
        (format!("[{}]", vec!["{\"a\":0}"; 200_000].join(",")), "objects, arrays and fields"),
        (format!("[{}]", vec!["0"; 1_500_000].join(",")), "more values than the limit"),
        (format!("{{{}}}", vec!["\"a\":0"; 300_000].join(",")), "objects, arrays and fields"),
    ] {
        let body = format!("{{\"prompt\": \"a\", \"max_tokens\": 1, \"metadata\": {value}}}");
        let (status, answer) = call(&server, post(COMPLETE, body)).await;
        assert_eq!(status, 400, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn fields_with_far_too_many_values_are_rejected_by_name() {
    let server = server();
    let numbers = format!("[{}]", vec!["1"; 1_000_000].join(","));
    let texts = format!("[{}]", vec!["\"\""; 1_000_000].join(","));
    let objects = format!("[{}]", vec!["{\"a\":0}"; 32_000].join(","));
    for (path, field, value) in [
        (COMPLETE, "stop", &numbers),
        (COMPLETE, "stop", &texts),
        (COMPLETE, "logit_bias", &numbers),
        (COMPLETE, "unknown", &numbers),
        (COMPLETE, "json_schema", &numbers),
        (COMPLETE, "guided_choice", &texts),
        (COMPLETE, "prompt", &texts),
        (CHAT, "messages", &numbers),
        (CHAT, "tools", &numbers),
        (CHAT, "messages", &objects),
        ("/v1/embeddings", "input", &texts),
        ("/v1/responses", "input", &numbers),
    ] {
        let body = format!("{{\"{field}\": {value}}}");
        let (status, _, param) = rejection(&server, post(path, body)).await;
        let param = param.as_str().unwrap_or_default().to_owned();
        assert!(status == 400 && param.starts_with(field), "{path} {field}: {param}");
    }
    for (path, body) in [
        ("/v1/messages", format!("{{\"system\": {numbers}}}")),
        ("/api/chat", format!("{{\"options\": {{\"stop\": {numbers}}}}}")),
    ] {
        let (status, answer) = call(&server, post(path, body)).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"].to_string().contains("too many values"), "{answer}");
    }
    // JSON in strings is limited as well.
    let inner = json!(format!("{{\"enum\": {numbers}}}"));
    let (status, _, param) = rejection(
        &server,
        post(COMPLETE, json!({"prompt": "a", "json_schema": inner}).to_string()),
    )
    .await;
    assert_eq!((status, param.as_str()), (400, Some("json_schema")));
    let calls = json!([{"function": {"name": "f", "arguments": inner}}]);
    let messages = json!([{"role": "assistant", "content": "", "tool_calls": calls},
                          {"role": "user", "content": "a"}]);
    for path in [CHAT, "/apply-template", "/tokenize"] {
        let request = post(path, json!({"messages": messages}).to_string());
        assert_eq!(rejection(&server, request).await.0, 400, "{path}");
    }
}

#[tokio::test]
async fn long_lists_of_token_ids_are_read_as_such() {
    let server = server();
    let ids = format!("[{}]", vec!["5"; 300_000].join(","));
    for (path, body, code) in [
        (COMPLETE, format!("{{\"prompt\": {ids}}}"), "context_length_exceeded"),
        (COMPLETE, format!("{{\"prompt\": [{ids}]}}"), "context_length_exceeded"),
        ("/generate", format!("{{\"input_ids\": {ids}}}"), "context_length_exceeded"),
        ("/v1/embeddings", format!("{{\"input\": {ids}}}"), "context_length_exceeded"),
        ("/detokenize", format!("{{\"tokens\": {ids}}}"), "invalid_value"),
    ] {
        let (status, found, _) = rejection(&server, post(path, body)).await;
        assert_eq!((status, found.as_str()), (400, code), "{path}");
    }
    let fits = format!("{{\"tokens\": [{}]}}", vec!["5"; 60_000].join(","));
    assert_eq!(call(&server, post("/detokenize", fits)).await.0, 200);
}

#[tokio::test]
async fn errors_speak_of_json_in_every_dialect() {
    let server = server();
    let text = |answer: &Value| {
        let error = &answer["error"];
        error.as_str().or(error["message"].as_str()).unwrap().to_owned()
    };
    for (path, body, says) in [
        (
            CHAT,
            json!({"max_tokens": "5"}),
            "max_tokens: expected a non-negative integer, found \"5\"",
        ),
        (CHAT, json!({"n": 1.5}), "n: expected a non-negative integer, found 1.5"),
        (CHAT, json!({"messages": [7]}), "messages[0]: expected an object, found 7"),
        (CHAT, json!({"messages": {}}), "messages: expected a list, found an object"),
        (
            CHAT,
            json!({"messages": [{"role": []}]}),
            "messages[0].role: expected a string, found a list",
        ),
        (CHAT, json!({"stream": 1}), "stream: expected true or false, found 1"),
        (CHAT, json!({"stream_options": 1}), "stream_options: expected an object, found 1"),
        (CHAT, json!({"tools": [1]}), "tools[0]: expected an object, found 1"),
        (CHAT, json!({"priority": 3_000_000_000_u32}), "priority: expected an integer between"),
        (COMPLETE, json!({"temperature": "hot"}), "temperature: expected a number, found \"hot\""),
        (COMPLETE, json!({"logit_bias": [1]}), "logit_bias: expected an object, found a list"),
        (
            "/v1/messages",
            json!({"max_tokens": -1}),
            "max_tokens: expected a non-negative integer of at most",
        ),
        ("/v1/messages", json!({"messages": [1]}), "messages[0]: expected an object, found 1"),
        (
            "/v1/responses",
            json!({"max_output_tokens": []}),
            "max_output_tokens: expected a non-negative integer",
        ),
        ("/api/chat", json!({"messages": [1]}), "messages[0]: expected an object, found 1"),
        ("/api/chat", json!({"options": {"seed": []}}), "options.seed: expected a whole number"),
        (
            "/generate",
            json!({"sampling_params": 1}),
            "sampling_params: expected an object, found 1",
        ),
        (
            "/v1/embeddings",
            json!({"encoding_format": "x"}),
            "encoding_format: unknown value `x`, expected `float` or",
        ),
        (
            "/v1/embeddings",
            json!({"dimensions": "x"}),
            "dimensions: expected a non-negative integer",
        ),
        ("/detokenize", json!({"tokens": ["x"]}), "tokens[0]: expected a non-negative integer"),
        ("/tokenize", json!({"messages": "x"}), "messages: expected a list, found \"x\""),
    ] {
        let (status, answer) = call(&server, post(path, body.to_string())).await;
        assert_eq!(status, 400, "{path} {body}: {answer}");
        let message = text(&answer);
        assert!(message.starts_with(says), "{path} {body}: {message}");
        for word in ["u32", "i32", "i64", "f32", "struct ", "enum ", "sequence", " map", "at line"]
        {
            assert!(!message.contains(word), "{path} {body}: {message}");
        }
    }
    let long = json!({"max_tokens": "x".repeat(100_000)});
    let (_, answer) = call(&server, post(CHAT, long.to_string())).await;
    assert!(text(&answer).len() < 300, "long values are cut");
}

#[tokio::test]
async fn bodies_of_all_connections_are_limited() {
    let limits = Limits { bodies_len: 4000, ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend()));
    let body = |len: usize| chat("user", &json!("x".repeat(len))).to_string();
    assert_eq!(call(&server, post(CHAT, body(700))).await.0, 200);
    let (status, code, _) = rejection(&server, post(CHAT, body(1000))).await;
    assert_eq!((status, code.as_str()), (429, "queue_full"));
    assert_eq!(call(&server, post(CHAT, body(700))).await.0, 200, "the bytes are free again");
}

#[tokio::test]
async fn errors_name_a_field_as_it_was_sent() {
    let server = server();
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chat = |field: &str, value: Value| json!({"messages": messages, field: value});
    let prompt = |field: &str, value: Value| json!({"prompt": "hi", field: value});
    let sglang =
        |field: &str, value: Value| json!({"text": "hi", "sampling_params": {field: value}});
    let long = json!("word ".repeat(3000));
    for (path, body, param) in [
        (CHAT, chat("max_tokens", json!(0)), "max_tokens"),
        (CHAT, chat("max_completion_tokens", json!(0)), "max_completion_tokens"),
        (CHAT, chat("max_completion_tokens", json!("x")), "max_completion_tokens"),
        (CHAT, chat("repetition_penalty", json!(0)), "repetition_penalty"),
        (CHAT, chat("repeat_penalty", json!(0)), "repeat_penalty"),
        (CHAT, chat("repeat_penalty", json!("x")), "repeat_penalty"),
        (COMPLETE, prompt("repeat_penalty", json!(0)), "repeat_penalty"),
        (COMPLETE, prompt("repetition_penalty", json!(0)), "repetition_penalty"),
        ("/generate", sglang("repeat_penalty", json!(0)), "repeat_penalty"),
        ("/generate", sglang("repetition_penalty", json!(0)), "repetition_penalty"),
        ("/generate", sglang("max_new_tokens", json!(0)), "max_new_tokens"),
        ("/generate", sglang("max_new_tokens", json!("x")), "sampling_params.max_new_tokens"),
        ("/generate", sglang("seed", json!("x")), "sampling_params.seed"),
        ("/v1/responses", json!({"input": "hi", "max_output_tokens": 0}), "max_output_tokens"),
        ("/tokenize", json!({"content": "hi", "messages": messages}), "content"),
        ("/tokenize", json!({"prompt": "hi", "messages": messages}), "prompt"),
    ] {
        let (status, answer) = call(&server, post(path, body.to_string())).await;
        let error = &answer["error"];
        let message = error["message"].as_str().unwrap();
        assert_eq!((status, error["param"].as_str()), (400, Some(param)), "{body}: {answer}");
        assert!(message.contains(param), "{body}: {message}");
    }
    for (options, name) in [
        (json!({"repeat_penalty": 0}), "repeat_penalty is 0"),
        (json!({"repetition_penalty": 0}), "repetition_penalty is 0"),
        (json!({"num_predict": "x"}), "options.num_predict"),
    ] {
        let body = json!({"prompt": "hi", "options": options});
        let (_, answer) = call(&server, post("/api/generate", body.to_string())).await;
        assert!(answer["error"].as_str().unwrap().starts_with(name), "{answer}");
    }
    // Names in messages follow those of the request as well.
    for (path, body, name) in [
        (
            CHAT,
            json!({"messages": messages, "max_completion_tokens": 9999}),
            "max_completion_tokens is",
        ),
        ("/generate", json!({"text": long}), "max_new_tokens is"),
        ("/v1/completions", json!({"prompt": long}), "max_tokens is"),
    ] {
        let (_, answer) = call(&server, post(path, body.to_string())).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains(name), "{answer}");
    }
}

#[tokio::test]
async fn unknown_fields_are_ignored_and_listed_if_the_operator_says_so() {
    let limits = Limits { unknown_fields: UnknownFieldPolicy::Ignore, ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend()));
    let text = json!({"prompt": "a", "max_tokens": 1, "temprature": 1, "x\n": {"y": 1}});
    let chat = json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "foo": 1,
                      "stream": true});
    let inner = json!({"num_predict": 1, "bar": 1});
    let ollama = json!({"prompt": "a", "options": inner, "baz": 2, "stream": false});
    for (path, body, listed) in [
        (COMPLETE, text, "temprature, x\\n"),
        (CHAT, chat, "foo"),
        ("/api/generate", ollama, "baz, bar"),
        ("/v1/embeddings", json!({"input": "a", "qux": 1}), "qux"),
    ] {
        let response = server.clone().oneshot(post(path, body.to_string())).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["x-wf-ignored-fields"], listed, "{path}");
    }
    let known = post(COMPLETE, json!({"prompt": "a", "max_tokens": 1, "user": "u"}).to_string());
    let response = server.clone().oneshot(known).await.unwrap();
    assert!(!response.headers().contains_key("x-wf-ignored-fields"));
    // What would change the output is still refused.
    let refused = post(COMPLETE, json!({"prompt": "a", "best_of": 2}).to_string());
    assert_eq!(server.oneshot(refused).await.unwrap().status(), 400);
}
