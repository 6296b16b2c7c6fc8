//! What an operator decides.

use std::time::Duration;

use wf_engine::SamplingParams;

use crate::auth::Keys;
use crate::guard::Hosts;
use crate::tls::Tls;

/// How the server behaves. Each limit has a test at its border.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who may use it.
    pub keys: Keys,
    /// By which names it may be called, and from which pages.
    pub hosts: Hosts,
    /// What no request may exceed.
    pub limits: Limits,
    /// How long a stopping server waits for the replies it is writing.
    pub drain: Duration,
    /// Whether `/metrics` is there.
    pub metrics: bool,
    /// Whether the chat page is there.
    pub page: bool,
    /// Encrypts connections, where it is there.
    pub tls: Option<Tls>,
}

/// What no request may exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// How deep JSON may be nested.
    pub json_depth: usize,
    /// Bytes of a request's target.
    pub uri_bytes: usize,
    /// Fields of a request's head.
    pub headers: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// How long a handshake may take, a head to arrive, and each kilobyte of a body.
    pub arrival: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub stall: Duration,
    /// How long a request may take in all.
    pub deadline: Duration,
    /// How often a stream says that it is alive.
    pub keep_alive: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Replies to one prompt.
    pub choices: u32,
    /// Prompts of one request, times replies to each.
    pub replies: usize,
    /// Texts of one request for vectors.
    pub inputs: usize,
    /// Texts that end a reply.
    pub stops: usize,
    /// Bytes of such a text.
    pub stop_bytes: usize,
    /// Tokens whose scores are changed.
    pub biases: usize,
    /// Likeliest tokens told of.
    pub top_logprobs: u32,
    /// Messages of a conversation.
    pub messages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            json_depth: 64,
            uri_bytes: 8 << 10,
            headers: 64,
            head_bytes: 16 << 10,
            arrival: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            deadline: Duration::from_secs(600),
            keep_alive: Duration::from_secs(15),
            connections: 16 << 10,
            choices: 8,
            replies: 256,
            inputs: 2048,
            stops: 16,
            stop_bytes: 256,
            biases: 1024,
            top_logprobs: 20,
            messages: 4096,
        }
    }
}

/// How tokens are drawn where a request does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingDefaults {
    /// 0 takes the likeliest token each time.
    pub temperature: f32,
    /// Only this many of the likeliest tokens; 0 is all.
    pub top_k: usize,
    /// Only the likeliest tokens that together have this probability.
    pub top_p: f32,
    /// Only tokens at least this likely, relative to the likeliest.
    pub min_p: f32,
    /// Divides the scores of tokens already seen.
    pub repetition_penalty: f32,
}

impl Default for SamplingDefaults {
    /// Those of OpenAI's API.
    fn default() -> Self {
        let SamplingParams { top_k, top_p, min_p, repetition_penalty, .. } =
            SamplingParams::default();
        Self { temperature: 1.0, top_k, top_p, min_p, repetition_penalty }
    }
}
