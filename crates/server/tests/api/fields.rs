//! Fields out of range are rejected by name.

use serde_json::{Value, json};
use wf_server::{Limits, ServerOptions, router};

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
        ("functions", json!([{}])),
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
        ("content-type", "text/plain", 415),
        ("content-type", "application/x-www-form-urlencoded", 415),
        ("content-encoding", "gzip", 415),
        ("content-type", "application/json; charset=utf-8", 200),
    ] {
        let mut request = post(CHAT, chat("user", &json!("u")).to_string());
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(call(&server, request).await.0, expected, "{name}: {value}");
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
async fn bodies_of_all_connections_are_limited() {
    let limits = Limits { bodies_len: 4000, ..Limits::default() };
    let server = router(&app(ServerOptions { limits, ..options() }, frontend()));
    let body = |len: usize| chat("user", &json!("x".repeat(len))).to_string();
    assert_eq!(call(&server, post(CHAT, body(700))).await.0, 200);
    let (status, code, _) = rejection(&server, post(CHAT, body(1000))).await;
    assert_eq!((status, code.as_str()), (429, "queue_full"));
    assert_eq!(call(&server, post(CHAT, body(700))).await.0, 200, "the bytes are free again");
}
