//! Chat and text completions.

use serde_json::{Value, json};
use wf_core::{AttentionMode, Window};
use wf_engine::{KvCapacity, RunOptions};
use wf_server::router;

use crate::support::{
    CHAT, COMPLETE, app, ask, bytes, call, events, frontend, get, open, options, post, rejection,
    server,
};

fn story() -> Value {
    json!({"messages": [{"role": "user", "content": "Tell me a story about a cat"}],
           "max_tokens": 24, "temperature": 0.8, "seed": 7, "logprobs": true, "top_logprobs": 2,
           "return_token_ids": true})
}

fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("no object: {more}") };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[tokio::test]
async fn chat_completions_have_openais_format() {
    let answer = ask(&server(), CHAT, &story()).await;
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "demo");
    assert_eq!(answer["seed"], 7);
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["message"]["rejection"], Value::Null);
    assert_eq!(choice["finish_reason"], "length");
    assert!(choice["message"]["content"].as_str().unwrap().len() > 40);
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!((tokens.len(), choice["token_ids"].as_array().unwrap().len()), (24, 24));
    assert!(tokens.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 2));
    assert_eq!(answer["usage"]["completion_tokens"], 24);
    let prompt = answer["prompt_token_ids"].as_array().unwrap().len();
    assert_eq!(answer["usage"]["prompt_tokens"], prompt);
    assert_eq!(answer["usage"]["total_tokens"], prompt + 24);
    assert_eq!(answer["timings"]["predicted_n"], 24);
}

#[tokio::test]
async fn streams_and_whole_responses_agree() {
    let server = server();
    for n in [1, 3] {
        let whole = ask(&server, CHAT, &with(story(), json!({"n": n}))).await;
        let more = json!({"n": n, "stream": true, "stream_options": {"include_usage": true}});
        let events = events(&server, CHAT, &with(story(), more)).await;
        for index in 0..n {
            let of = |event: &Value| {
                let choice = event["choices"][0].clone();
                (choice["index"] == index).then_some(choice)
            };
            let parts: Vec<Value> = events.iter().filter_map(of).collect();
            assert_eq!(parts[0]["delta"]["role"], "assistant");
            let choice = &whole["choices"][index];
            let text: String =
                parts.iter().filter_map(|part| part["delta"]["content"].as_str()).collect();
            assert_eq!(text, choice["message"]["content"].as_str().unwrap());
            let ids: Vec<&Value> =
                parts.iter().filter_map(|part| part["token_ids"].as_array()).flatten().collect();
            assert_eq!(ids, choice["token_ids"].as_array().unwrap().iter().collect::<Vec<_>>());
            let logprobs = parts.iter().filter_map(|part| part["logprobs"]["content"].as_array());
            let logprobs: Vec<&Value> = logprobs.flatten().collect();
            let expected = choice["logprobs"]["content"].as_array().unwrap();
            assert_eq!(logprobs, expected.iter().collect::<Vec<_>>());
            let ends: Vec<_> =
                parts.iter().filter(|part| !part["finish_reason"].is_null()).collect();
            assert_eq!(ends.len(), 1, "one end");
            assert_eq!(ends[0]["finish_reason"], choice["finish_reason"]);
        }
        let last = events.last().unwrap();
        assert_eq!(last["choices"], json!([]));
        for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(last["usage"][count], whole["usage"][count]);
        }
        assert!(events[..events.len() - 1].iter().all(|event| event["usage"] == Value::Null));
        assert_eq!(events[0]["seed"], 7);
        for event in &events {
            assert_eq!((&event["model"], &event["id"]), (&whole["model"], &events[0]["id"]));
        }
    }
}

#[tokio::test]
async fn choices_differ_and_the_first_is_the_only_one() {
    let server = server();
    let alone = ask(&server, CHAT, &story()).await;
    let several = ask(&server, CHAT, &with(story(), json!({"n": 4}))).await;
    let text = |answer: &Value, at: usize| answer["choices"][at]["message"]["content"].to_string();
    assert_eq!(text(&alone, 0), text(&several, 0));
    assert_ne!(text(&several, 0), text(&several, 1));
    assert_eq!(several["usage"]["prompt_tokens"], alone["usage"]["prompt_tokens"]);
    assert_eq!(several["usage"]["completion_tokens"], 4 * 24);
}

#[tokio::test]
async fn a_seed_that_was_drawn_draws_the_same_again() {
    let server = server();
    let mut body = story();
    body.as_object_mut().unwrap().remove("seed");
    let first = ask(&server, CHAT, &body).await;
    let again = ask(&server, CHAT, &with(body, json!({"seed": first["seed"]}))).await;
    assert_eq!(first["choices"], again["choices"]);
}

#[tokio::test]
async fn stop_strings_end_a_completion_and_are_not_part_of_it() {
    let server = server();
    let greedy = json!({"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0});
    let whole = ask(&server, COMPLETE, &greedy).await;
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let stop = &text[text.len() / 2..text.len() / 2 + 6];
    for stream in [false, true] {
        let body = with(greedy.clone(), json!({"stop": [stop], "stream": stream}));
        let (found, reason) = if stream {
            let events = events(&server, COMPLETE, &body).await;
            let found: String =
                events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
            (found, events.last().unwrap()["choices"][0]["finish_reason"].clone())
        } else {
            let answer = ask(&server, COMPLETE, &body).await;
            let choice = &answer["choices"][0];
            (choice["text"].as_str().unwrap().to_owned(), choice["finish_reason"].clone())
        };
        assert_eq!(found, text[..text.find(stop).unwrap()]);
        assert_eq!(reason, "stop");
    }
}

#[tokio::test]
async fn completions_take_texts_and_tokens_one_and_many() {
    let server = server();
    let ask = async |prompt: Value| {
        let body = json!({"prompt": prompt, "max_tokens": 8, "temperature": 0});
        ask(&server, COMPLETE, &body).await
    };
    let one = ask(json!("Once upon a time")).await;
    let body = json!({"prompt": "Once upon a time"});
    let (_, tokens) = call(&server, post("/tokenize", body.to_string())).await;
    let of_ids = ask(tokens["tokens"].clone()).await;
    assert_eq!(one["choices"], of_ids["choices"]);
    let many = ask(json!(["Once upon a time", "The cat"])).await;
    let of_many_ids = ask(json!([tokens["tokens"], tokens["tokens"]])).await;
    assert_eq!(many["choices"][0]["text"], one["choices"][0]["text"]);
    assert_eq!(many["choices"][1]["index"], 1);
    assert_eq!(of_many_ids["choices"][1]["text"], one["choices"][0]["text"]);
    assert_eq!(of_many_ids["usage"]["prompt_tokens"], 10);
}

#[tokio::test]
async fn an_echo_tells_how_likely_the_prompt_was() {
    let server = server();
    let body = json!({"prompt": "Once upon a time", "max_tokens": 1, "echo": true, "logprobs": 2,
                      "temperature": 0});
    let answer = ask(&server, COMPLETE, &body).await;
    let choice = &answer["choices"][0];
    assert!(choice["text"].as_str().unwrap().starts_with("Once upon a time"));
    let lists = &choice["logprobs"];
    let list = |name: &str| lists[name].as_array().unwrap().clone();
    assert_eq!(list("tokens").len(), 6, "begin, four words, one more");
    for name in ["token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(name).len(), 6, "{name}");
    }
    assert!(list("token_logprobs")[0].is_null() && list("top_logprobs")[0].is_null());
    assert!(list("token_logprobs")[1..].iter().all(|p| p.as_f64().is_some_and(|p| p <= 0.0)));
    // The same, requested token by token: the scores of a prompt are those of a completion.
    let text = "Once upon a time";
    let offsets: Vec<usize> =
        list("text_offset").iter().map(|at| at.as_u64().unwrap() as usize).collect();
    for (i, offset) in offsets.iter().enumerate().take(5).skip(2) {
        let body = json!({"prompt": text[..*offset], "max_tokens": 1, "temperature": 0,
                          "logprobs": 5});
        let next = ask_logprobs(&server, &body).await;
        let token = list("tokens")[i].as_str().unwrap().to_owned();
        assert_eq!(next[&token], list("token_logprobs")[i], "{token}");
    }
    // A prompt alone.
    let alone = with(body, json!({"max_tokens": 0}));
    let alone = ask(&server, COMPLETE, &alone).await;
    assert_eq!(alone["choices"][0]["text"], text);
    assert_eq!(alone["usage"]["completion_tokens"], 0);
    let expected: Vec<_> = list("token_logprobs")[..5].to_vec();
    assert_eq!(alone["choices"][0]["logprobs"]["token_logprobs"], json!(expected));
}

async fn ask_logprobs(server: &axum::Router, body: &Value) -> Value {
    ask(server, COMPLETE, body).await["choices"][0]["logprobs"]["top_logprobs"][0].clone()
}

#[tokio::test]
async fn the_last_message_can_be_continued() {
    let server = server();
    let messages = json!([{"role": "user", "content": "Tell me a story"},
                          {"role": "assistant", "content": "Once upon a time, there was a "}]);
    let body = json!({"messages": messages, "continue_final_message": true});
    let (_, open) = call(&server, post("/apply-template", body.to_string())).await;
    assert!(open["prompt"].as_str().unwrap().ends_with("there was a "), "{open}");
    let closed = json!({"messages": messages});
    let (_, closed) = call(&server, post("/apply-template", closed.to_string())).await;
    assert!(closed["prompt"].as_str().unwrap().len() > open["prompt"].as_str().unwrap().len());
    let answer = ask(&server, CHAT, &with(body, json!({"max_tokens": 8, "temperature": 0}))).await;
    assert!(answer["choices"][0]["message"]["content"].as_str().unwrap().len() > 4);
}

#[tokio::test]
async fn a_prompt_that_starts_alike_is_not_computed_again() {
    let server = server();
    let words: String = (0..1500).map(|i| format!(" cat{}", i % 7)).collect();
    let body = |end: &str| {
        json!({"prompt": format!("{words}{end}"), "max_tokens": 8,
                                  "temperature": 0, "cache_salt": "prefix"})
    };
    let (_, tokens) = call(&server, post("/tokenize", json!({"prompt": words}).to_string())).await;
    let ids: Vec<Value> = tokens["tokens"].as_array().unwrap()[..1500].to_vec();
    let prompt = |last: u32| json!([&ids[..], &[json!(last)]].concat());
    let ask_ids = async |last: u32| {
        ask(&server, COMPLETE, &with(body(""), json!({"prompt": prompt(last)}))).await
    };
    let cached = |answer: &Value| {
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    let first = ask_ids(100).await;
    assert_eq!(cached(&first), 0);
    let second = ask_ids(101).await;
    assert!(cached(&second) >= 1472, "{second}");
    let again = ask_ids(100).await;
    assert_eq!(first["choices"], again["choices"]);
    // Nobody else's requests find it.
    let other = with(body(""), json!({"prompt": prompt(100), "cache_salt": "other"}));
    let other = ask(&server, COMPLETE, &other).await;
    assert_eq!(cached(&other), 0);
    assert_eq!(first["choices"], other["choices"]);
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_when_to_come_back() {
    let few = RunOptions { max_running: 1, max_waiting: 3, threads: 1, ..RunOptions::default() };
    let server = router(&app(options(), open(&few)));
    let send = async |prompts: &[&str]| {
        let body =
            json!({"prompt": prompts, "max_tokens": 500, "ignore_eos": true, "stream": true});
        let request = post(COMPLETE, body.to_string());
        tower::ServiceExt::oneshot(server.clone(), request).await.unwrap()
    };
    let health_is = async |running: usize, waiting: usize| {
        let (_, health) = call(&server, get("/health")).await;
        health["running"] == running && health["waiting"] == waiting
    };
    let taken = send(&["a", "b", "c"]).await;
    while !health_is(1, 2).await {}
    // Two more replies do not fit the one place that is left.
    let response = send(&["d", "e"]).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let error: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    assert_eq!(error["error"]["code"], "queue_full");
    // Those that were taken are gone with their request.
    drop(taken);
    while !health_is(0, 0).await {}
    ask(&server, COMPLETE, &json!({"prompt": "a", "max_tokens": 2})).await;
}

#[tokio::test]
async fn a_small_kv_cache_delays_completions_and_changes_nothing() {
    let server_with = |bytes: usize| {
        let kv_capacity = KvCapacity::Bytes(bytes);
        router(&app(
            options(),
            open(&RunOptions { kv_capacity, threads: 2, ..RunOptions::default() }),
        ))
    };
    let token_bytes = 6 << 10;
    let (small, large) = (server_with(256 * token_bytes), server_with(8192 * token_bytes));
    let body = json!({"prompt": ["One day", "The dog", "A bird", "Rain", "Tom", "She", "He", "It"],
                      "max_tokens": 100, "seed": 3, "logprobs": 1, "ignore_eos": true});
    let (tight, roomy) = tokio::join!(ask(&small, COMPLETE, &body), ask(&large, COMPLETE, &body));
    assert_eq!(tight["choices"], roomy["choices"]);
    let (_, props) = call(&small, get("/props")).await;
    assert_eq!(props["kv_tokens"], 256);
    let request = post(COMPLETE, json!({"prompt": "a", "max_tokens": 256}).to_string());
    let (status, code, _) = rejection(&small, request).await;
    assert_eq!((status, code.as_str()), (400, "context_length_exceeded"));
}

#[tokio::test]
async fn metrics_agree_with_usage() {
    let app = app(options(), frontend());
    let server = router(&app);
    let (mut prompt, mut reply) = (0, 0);
    for n in [1, 2] {
        let answer = ask(&server, CHAT, &with(story(), json!({"n": n}))).await;
        prompt += answer["usage"]["prompt_tokens"].as_u64().unwrap();
        reply += answer["usage"]["completion_tokens"].as_u64().unwrap();
    }
    let response = tower::ServiceExt::oneshot(server, get("/metrics")).await.unwrap();
    let text = String::from_utf8(bytes(response).await).unwrap();
    let has = |line: String| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    has(format!("wf:prompt_tokens_total {prompt}"));
    has(format!("wf:generation_tokens_total {reply}"));
    has("wf:request_success_total{finished_reason=\"length\"} 3".into());
    has("wf:time_to_first_token_seconds_count 3".into());
    has(format!("wf:http_requests_total{{handler=\"{CHAT}\",status=\"200\"}} 2"));
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn tokenize_gives_what_a_completion_runs() {
    let server = server();
    let text = "Once <|eot_id|> upon";
    let tokens = ask(&server, "/tokenize", &json!({"prompt": text})).await;
    let echo = json!({"prompt": text, "max_tokens": 1, "echo": true, "logprobs": 0,
                      "return_token_ids": true});
    let echo = ask(&server, COMPLETE, &echo).await;
    assert_eq!(echo["usage"]["prompt_tokens"], tokens["count"]);
    assert_eq!(echo["choices"][0]["prompt_token_ids"], tokens["tokens"]);
}

#[tokio::test]
async fn an_echo_alone_may_fill_the_context() {
    let server = server();
    let context = frontend().context_len();
    let echo = |tokens: usize, max_tokens: usize| {
        let body = json!({"prompt": vec![5; tokens], "max_tokens": max_tokens, "echo": true});
        post(COMPLETE, body.to_string())
    };
    let (status, answer) = call(&server, echo(context, 0)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["usage"]["prompt_tokens"], context);
    assert_eq!(rejection(&server, echo(context, 1)).await.1, "context_length_exceeded");
    assert_eq!(rejection(&server, echo(context + 1, 0)).await.1, "context_length_exceeded");
}

#[tokio::test]
async fn text_and_tokens_go_there_and_back() {
    let server = server();
    let body = json!({"content": "A cat: <|eot_id|> 🦀", "with_pieces": true,
                      "add_special_tokens": false, "parse_special": false});
    let tokens = ask(&server, "/tokenize", &body).await;
    assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
    assert_eq!(tokens["token_strs"].as_array().unwrap().len(), tokens["count"]);
    let text = ask(&server, "/detokenize", &json!({"tokens": tokens["tokens"]})).await;
    assert_eq!(text["content"], "A cat: <|eot_id|> 🦀");
    let named = ask(&server, "/tokenize", &json!({"content": "A cat: <|eot_id|> 🦀"})).await;
    assert!(named["count"].as_u64() < tokens["count"].as_u64(), "one token for the name");
    let (_, info) = call(&server, get("/tokenizer_info")).await;
    assert_eq!(info["bos_token"], "<|begin_of_text|>");
}

#[tokio::test]
async fn the_texts_of_very_many_tokens_are_refused() {
    let server = server();
    let max = 64 << 10;
    let tokenize = |tokens: usize, return_token_strs: bool| {
        let body = json!({"prompt": " a".repeat(tokens), "add_special_tokens": false,
                          "return_token_strs": return_token_strs});
        call(&server, post("/tokenize", body.to_string()))
    };
    let (status, answer) = tokenize(max, true).await;
    assert_eq!((status, &answer["count"]), (200, &json!(max)));
    assert_eq!(tokenize(max + 1, false).await.0, 200, "ids alone are short");
    let (status, answer) = tokenize(max + 1, true).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("return_token_strs")));
}

#[tokio::test]
async fn sglang_gets_its_own_shape() {
    let server = server();
    let body = json!({"text": "Once upon a time", "return_logprob": true, "top_logprobs_num": 2,
                      "logprob_start_len": 0,
                      "sampling_params": {"max_new_tokens": 6, "temperature": 0}});
    let whole = ask(&server, "/generate", &body).await;
    let meta = &whole["meta_info"];
    assert_eq!(meta["finish_reason"], json!({"type": "length", "length": 6}));
    assert_eq!(meta["output_token_logprobs"].as_array().unwrap().len(), 6);
    assert_eq!(meta["output_top_logprobs"][0].as_array().unwrap().len(), 2);
    assert_eq!(meta["input_token_logprobs"].as_array().unwrap().len(), 5);
    let events = events(&server, "/generate", &with(body, json!({"stream": true}))).await;
    let mut text = String::new();
    for event in &events {
        assert!(event["text"].as_str().unwrap().starts_with(&text), "cumulative");
        text = event["text"].as_str().unwrap().to_owned();
    }
    assert_eq!(text, whole["text"].as_str().unwrap());
    assert_eq!(events.last().unwrap()["meta_info"]["finish_reason"], meta["finish_reason"]);
}

#[tokio::test]
async fn a_window_accepts_prompts_beyond_the_context() {
    let with = |attention| {
        let context_len = Some(128);
        let run = RunOptions { attention, context_len, threads: 2, ..RunOptions::default() };
        router(&app(options(), open(&run)))
    };
    let dense = with(AttentionMode::Dense);
    let sliding = with(AttentionMode::Window(Window { len: 64, sinks: 4 }));
    let body = json!({"prompt": vec![100; 400], "max_tokens": 20, "seed": 3, "ignore_eos": true});
    let (status, code, _) = rejection(&dense, post(COMPLETE, body.to_string())).await;
    assert_eq!((status, code.as_str()), (400, "context_length_exceeded"));
    let answer = ask(&sliding, COMPLETE, &body).await;
    assert_eq!(answer["usage"]["total_tokens"], 420);
    assert_eq!(answer["timings"]["out_of_sight_n"], 421 - 68);
    let again = ask(&sliding, COMPLETE, &body).await;
    assert_eq!(again["choices"][0]["text"], answer["choices"][0]["text"]);
    assert!(again["timings"]["cache_n"].as_u64().is_some_and(|cached| cached > 300), "{again}");

    let (_, props) = call(&sliding, get("/props")).await;
    let attention =
        json!({"mode": "window=64,sinks=4", "window": 64, "sinks": 4, "max_tokens": 1 << 20});
    assert_eq!(props["attention"], attention);
    assert_eq!(props["default_generation_settings"]["n_ctx"], 128);
    let (_, plain) = call(&dense, get("/props")).await;
    assert_eq!(plain["attention"]["mode"], "dense");
    assert_ne!(plain["system_fingerprint"], props["system_fingerprint"], "results differ");
    let long = json!({"prompt": "a", "max_tokens": 1 << 20});
    let (_, code, _) = rejection(&sliding, post(COMPLETE, long.to_string())).await;
    assert_eq!(code, "context_length_exceeded");
}
