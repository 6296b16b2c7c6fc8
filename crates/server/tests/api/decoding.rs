//! Decoding modes of requests.

use serde_json::{Value, json};
use wf_engine::DecodeMode;

use crate::support::{CHAT, COMPLETE, ask, bytes, call, events, get, post, rejection, server};

fn story(more: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Tell me a story about a dragon."}],
        "max_tokens": 50, "temperature": 0, "return_token_ids": true,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn tokens(answer: &Value) -> &Value {
    &answer["choices"][0]["token_ids"]
}

#[tokio::test]
async fn drafting_gives_the_same_output_in_fewer_passes() {
    let server = server();
    for temperature in [0.0, 0.9] {
        let seeded = json!({"temperature": temperature, "seed": 5});
        let plain = ask(&server, CHAT, &story(&seeded)).await;
        assert_eq!(plain["timings"]["passes_n"], 50);
        for decode in ["drafted", "lookup", "drafted+lookup", "auto"] {
            let mut more = seeded.clone();
            more["decode"] = json!(decode);
            let drafted = ask(&server, CHAT, &story(&more)).await;
            assert_eq!(tokens(&drafted), tokens(&plain), "{decode}");
            if temperature == 0.0 && decode.starts_with("drafted") {
                assert!(drafted["timings"]["passes_n"].as_u64().unwrap() < 40, "{drafted}");
                assert!(drafted["timings"]["draft_n_accepted"].as_u64().unwrap() > 10);
            }
        }
    }
}

#[tokio::test]
async fn blocks_may_be_asked_for_in_every_way_that_survives_a_router() {
    let server = server();
    let field = ask(&server, CHAT, &story(&json!({"diffusion": {"threshold": 0.7}}))).await;
    assert_eq!(tokens(&field).as_array().unwrap().len(), 50, "no multiple of a block");
    assert!(field["timings"]["passes_n"].as_u64().unwrap() < 40);
    assert!(field["timings"]["predicted_per_second"].as_f64().unwrap() > 0.0);
    let kwargs =
        json!({"chat_template_kwargs": {"decode": "diffusion", "diffusion": {"threshold": 0.7}}});
    let metadata =
        json!({"metadata": {"decode": "diffusion", "diffusion": "{\"threshold\": 0.7}"}});
    for carrier in [kwargs, metadata] {
        assert_eq!(tokens(&ask(&server, CHAT, &story(&carrier)).await), tokens(&field));
    }
    let prompt = &field["prompt_token_ids"];
    let generate = json!({"input_ids": ask(&server, CHAT, &story(&json!({}))).await["prompt_token_ids"],
        "sampling_params": {"max_new_tokens": 50, "temperature": 0},
        "session_params": {"diffusion": {"threshold": 0.7}}});
    assert!(prompt.is_array());
    assert_eq!(&ask(&server, "/generate", &generate).await["output_ids"], tokens(&field));
}

#[tokio::test]
async fn nothing_after_a_stop_is_sent_and_a_stream_says_the_same() {
    let server = server();
    let blocks = json!({"decode": "diffusion", "max_tokens": 90});
    let whole = ask(&server, CHAT, &story(&blocks)).await;
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let stop = text.split_whitespace().nth(12).unwrap();
    let mut more = blocks.clone();
    more["stop"] = json!([stop]);
    let stopped = ask(&server, CHAT, &story(&more)).await;
    let cut = stopped["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(cut, &text[..text.find(stop).unwrap()]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");

    more = blocks;
    more["stream"] = json!(true);
    more["diffusion"] = json!({"preview": true});
    let events = events(&server, CHAT, &story(&more)).await;
    let streamed: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(streamed, text);
    let previews: Vec<_> =
        events.iter().filter_map(|event| event["block_preview"].as_array()).collect();
    assert!(previews.len() > 5);
    assert!(previews.iter().any(|block| block.contains(&Value::Null)), "some masks");
    assert!(previews.iter().all(|block| block.len() == 31));
}

#[tokio::test]
async fn unsupported_modes_are_rejected() {
    let server = server();
    for (more, param) in [
        (json!({"decode": "fast"}), "decode"),
        (json!({"decode": "lookup", "diffusion": {"steps": 2}}), "decode"),
        (json!({"diffusion": {"sub_block_size": 5}}), "decode"),
        (json!({"diffusion": {"threshold": 2}}), "decode"),
        (json!({"diffusion": {"rule": "best"}}), "decode"),
        (json!({"decode": "lookup", "draft": {"tokens": 0}}), "decode"),
        (json!({"metadata": {"diffusion": "{}}"}}), "diffusion"),
    ] {
        let (status, _, at) = rejection(&server, post(CHAT, story(&more).to_string())).await;
        assert_eq!((status, at), (400, json!(param)), "{more}");
    }
    let echo = json!({"prompt": "Once", "echo": true, "logprobs": 0, "max_tokens": 4, "decode": "diffusion"});
    let (status, _, at) = rejection(&server, post(COMPLETE, echo.to_string())).await;
    assert_eq!((status, at), (400, json!("decode")));
}

#[tokio::test]
async fn props_and_metrics_report_decoding_modes() {
    let server = server();
    let (_, props) = call(&server, get("/props")).await;
    assert_eq!(props["decode"]["default"], "autoregressive");
    let modes: Vec<_> = props["decode"]["modes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode.as_str().unwrap())
        .collect();
    // All but the one that needs a prediction head, which the demo model does not have.
    let expected: Vec<_> = DecodeMode::names().into_iter().filter(|name| *name != "mtp").collect();
    assert_eq!(modes, expected);
    assert_eq!(props["decode"]["block_size"], 32);
    ask(&server, CHAT, &story(&json!({"decode": "drafted"}))).await;
    let response = tower::ServiceExt::oneshot(server, get("/metrics")).await.unwrap();
    let metrics = String::from_utf8(bytes(response).await).unwrap();
    for name in ["generation_passes", "num_draft_tokens", "num_accepted_tokens"] {
        let line = metrics.lines().find(|l| !l.starts_with('#') && l.contains(name)).unwrap();
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    }
}
