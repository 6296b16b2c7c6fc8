//! A server that speaks the API without a model, and makes one kind of mistake.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// The error of one response after those sent alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    OtherToken,
    OtherLogprob,
    OtherText,
    OtherFinish,
    OtherUsage,
    LostEvent,
    DoubleEvent,
    DoubleFinish,
    NoDone,
    AfterDone,
    Reset,
    Status500,
    Miscount,
    Busy,
}

/// The reply that goes wrong: after the ten that are asked for alone.
const FAULTY: usize = 25;

/// Requests that a busy server refuses, from that one on.
pub(crate) const REFUSALS: usize = 3;

/// A server on a thread of its own, which ends with the test.
pub(crate) struct Scripted {
    url: String,
}

#[derive(Default)]
struct Counts {
    finished: BTreeMap<&'static str, usize>,
    prompt_tokens: usize,
    generation_tokens: usize,
}

struct State {
    fault: Fault,
    replies: AtomicUsize,
    counts: Mutex<Counts>,
}

impl Scripted {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let state =
            Arc::new(State { fault, replies: AtomicUsize::new(0), counts: Mutex::default() });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A client that has hung up is no fault of ours.
                std::thread::spawn(move || state.answer(stream).ok());
            }
        });
        Self { url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// The response to a request without an error.
struct Reply {
    is_chat: bool,
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    text: String,
    finish: &'static str,
    prompt_tokens: usize,
    completion_tokens: usize,
}

impl Reply {
    /// Made of the request alone.
    fn to(path: &str, body: &Value) -> Self {
        let prompt = format!("{}{}{}", body["prompt"], body["messages"], body["seed"]);
        let max_tokens = body["max_tokens"].as_u64().unwrap_or(1) as usize;
        let hash = prompt.bytes().fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        let ids: Vec<u32> =
            (0..max_tokens as u32).map(|i| hash.rotate_left(i * 5) % 1000).collect();
        Self {
            is_chat: path.contains("chat"),
            logprobs: ids.iter().map(|&id| -(id as f32) / 7.0).collect(),
            text: String::new(),
            finish: if hash.is_multiple_of(2) { "stop" } else { "length" },
            prompt_tokens: prompt.split(' ').count(),
            completion_tokens: ids.len(),
            ids,
        }
    }

    fn usage(&self) -> Value {
        let (prompt, reply) = (self.prompt_tokens, self.completion_tokens);
        json!({"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply})
    }

    /// Some of its tokens, as a choice; all of them if it is not for a stream.
    fn choice(&self, range: std::ops::Range<usize>, streamed: bool, finish: Option<&str>) -> Value {
        let ids = &self.ids[range.clone()];
        let mut text: String = ids.iter().map(|id| format!("w{id} ")).collect();
        if range.start == 0 {
            text += &self.text;
        }
        let mut choice = json!({"index": 0, "token_ids": ids, "finish_reason": finish});
        let logprobs = &self.logprobs[range];
        if self.is_chat {
            let tokens: Vec<Value> = logprobs
                .iter()
                .map(|p| json!({"token": "x", "logprob": p, "bytes": null, "top_logprobs": []}))
                .collect();
            choice["logprobs"] = json!({"content": tokens, "refusal": null});
            let place = if streamed { "delta" } else { "message" };
            choice[place] = json!({"role": "assistant", "content": text, "refusal": null});
        } else {
            let count = logprobs.len();
            choice["logprobs"] = json!({
                "text_offset": vec![0; count],
                "token_logprobs": logprobs,
                "tokens": vec!["x"; count],
                "top_logprobs": vec![json!({"x": -1.5}); count],
            });
            choice["text"] = text.into();
        }
        choice
    }

    fn envelope(&self, choices: &[Value], usage: &Value) -> Value {
        json!({
            "id": "a", "object": "x", "created": 1, "model": "scripted", "system_fingerprint": "x",
            "seed": 1, "choices": choices, "usage": usage,
            "timings": {
                "queue_ms": 0.0, "cache_n": 0, "prompt_n": 0, "prompt_ms": 0.0,
                "prompt_per_second": 0.0, "predicted_n": 0, "predicted_ms": 0.0,
                "predicted_per_second": 0.0
            },
        })
    }

    fn events(&self) -> Vec<String> {
        let chunk = |choice| self.envelope(&[choice], &Value::Null);
        let mut events: Vec<Value> =
            (0..self.ids.len()).map(|at| chunk(self.choice(at..at + 1, true, None))).collect();
        let end = self.ids.len();
        events.push(chunk(self.choice(end..end, true, Some(self.finish))));
        events.push(self.envelope(&[], &self.usage()));
        let mut texts: Vec<String> = events.iter().map(Value::to_string).collect();
        texts.push("[DONE]".to_owned());
        texts
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (path, body) = read_request(&stream)?;
        let answer = match path.as_str() {
            "/v1/models" => whole(
                "200 OK",
                &json!({"object": "list", "data": [{
                    "id": "scripted", "object": "model", "created": 1, "owned_by": "x",
                    "max_model_len": 2048, "digest": "x"
                }]}),
            ),
            "/health" => whole("200 OK", &json!({"status": "healthy"})),
            "/metrics" => head("200 OK", &self.metrics()),
            "/v1/chat/completions" | "/v1/completions" => self.reply(&path, &body),
            // Also a connection that was given up before its request was sent.
            _ => whole("404 Not Found", &error("no such path")),
        };
        stream.write_all(answer.as_bytes())
    }

    fn reply(&self, path: &str, body: &Value) -> String {
        let number = self.replies.fetch_add(1, Ordering::Relaxed);
        let is_faulty = number == FAULTY;
        let fault = if is_faulty { self.fault } else { Fault::None };
        if self.fault == Fault::Busy && (FAULTY..FAULTY + REFUSALS).contains(&number) {
            let refusal = whole("429 Too Many Requests", &error("too much to do"));
            return refusal.replacen("\r\n", "\r\nretry-after: 0\r\n", 1);
        }
        let mut reply = Reply::to(path, body);
        {
            let mut counts = self.counts.lock().expect("nobody panics");
            counts.prompt_tokens += reply.prompt_tokens + usize::from(fault == Fault::Miscount);
            counts.generation_tokens += reply.completion_tokens;
            *counts.finished.entry(reply.finish).or_default() += 1;
        }
        match fault {
            Fault::OtherToken => reply.ids[2] += 1,
            Fault::OtherLogprob => {
                reply.logprobs[1] = f32::from_bits(reply.logprobs[1].to_bits() + 1)
            }
            Fault::OtherText => reply.text.push('!'),
            Fault::OtherFinish => reply.finish = "deadline",
            Fault::OtherUsage => reply.prompt_tokens += 1,
            Fault::Status500 => return whole("500 Internal Server Error", &error("it broke")),
            _ => {}
        }
        if body["stream"] == true {
            stream_of(&reply, fault)
        } else {
            let choice = reply.choice(0..reply.ids.len(), false, Some(reply.finish));
            whole("200 OK", &reply.envelope(&[choice], &reply.usage()))
        }
    }

    fn metrics(&self) -> String {
        let counts = self.counts.lock().expect("nobody panics");
        let mut text = format!(
            "wf:num_requests_running 0\nwf:num_requests_waiting 0\nwf:kv_pages_in_use 0\n\
             wf:prompt_tokens_total {}\nwf:generation_tokens_total {}\n",
            counts.prompt_tokens, counts.generation_tokens
        );
        for (reason, count) in &counts.finished {
            let _ =
                writeln!(text, "wf:request_success_total{{finished_reason=\"{reason}\"}} {count}");
        }
        text
    }
}

fn stream_of(reply: &Reply, fault: Fault) -> String {
    let mut events = reply.events();
    let finish = events.len() - 3;
    match fault {
        Fault::LostEvent => drop(events.remove(1)),
        Fault::DoubleEvent => events.insert(1, events[1].clone()),
        Fault::DoubleFinish => events.insert(finish, events[finish].clone()),
        Fault::NoDone => drop(events.pop()),
        Fault::AfterDone => events.push("{}".to_owned()),
        _ => {}
    }
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n"
        .to_owned();
    for event in events {
        let event = format!("data: {event}\n\n");
        let _ = write!(text, "{:x}\r\n{event}\r\n", event.len());
    }
    if fault == Fault::Reset {
        text.truncate(text.len() / 2);
        return text;
    }
    text + "0\r\n\r\n"
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message, "type": "server_error", "param": null, "code": null}})
}

fn whole(status: &str, body: &Value) -> String {
    head(status, &body.to_string())
}

fn head(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The path of a request, and its body.
fn read_request(stream: &TcpStream) -> std::io::Result<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok((path, serde_json::from_slice(&body).unwrap_or_default()))
}
