//! Options and limits that the operator sets.

use std::time::Duration;

use wf_core::SamplingParams;

use crate::access::{Hosts, Keys, SaltKey, Tls, TrustedProxy};
use crate::store::FileStore;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// API keys at the start; [`crate::App::set_keys`] replaces them.
    pub keys: Keys,
    /// Host names and origins.
    pub hosts: Hosts,
    /// Proxies that tell the addresses of their clients.
    pub proxies: Vec<TrustedProxy>,
    /// Limits on requests and connections.
    pub limits: Limits,
    /// Time that requests in flight have to finish during shutdown.
    pub drain: Duration,
    /// Enables `/metrics`.
    pub metrics: bool,
    /// First part of the names of metrics: `wf`, or that of a server whose dashboards are to work.
    pub metrics_prefix: String,
    /// Enables the chat page.
    pub page: bool,
    /// MCP servers that the chat page may use, as URLs without query.
    pub mcp_servers: Vec<String>,
    /// Files and batches of callers; their routes are off without it.
    pub files: Option<FileStore>,
    /// Secret of the salts that separate the prefix caches of callers.
    pub salt_key: SaltKey,
    /// Certificate and key; connections are not encrypted without it.
    pub tls: Option<Tls>,
}

/// Limits on requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum length of a body in bytes.
    pub body_len: usize,
    /// Maximum nesting depth of JSON.
    pub json_depth: usize,
    /// Maximum number of arrays, objects, and fields of objects in a body.
    pub json_parts: usize,
    /// Maximum number of values in a body.
    pub json_values: usize,
    /// Maximum number of values in all fields that are read, without token ids in the fields that have them.
    pub field_values: usize,
    /// Maximum length of all bodies that are being read, in bytes. One caller may have a quarter.
    pub bodies_len: usize,
    /// Maximum length of a request target in bytes.
    pub uri_len: usize,
    /// Maximum number of header fields.
    pub headers: usize,
    /// Maximum length of a request head in bytes.
    pub head_len: usize,
    /// Time limit for a TLS handshake, for a request head, and for each kilobyte of a body.
    pub read_timeout: Duration,
    /// Time after which a connection without a request is closed.
    pub idle_timeout: Duration,
    /// Time after which a client that reads nothing is disconnected.
    pub write_timeout: Duration,
    /// Time limit for a request.
    pub deadline: Duration,
    /// Interval of keep-alive events in streams.
    pub keep_alive: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of completions per prompt.
    pub choices: u32,
    /// Maximum number of sequences per request: prompts times completions of each.
    pub sequences: usize,
    /// Maximum number of texts per embedding request.
    pub embedding_inputs: usize,
    /// Maximum number of stop strings.
    pub stop_strings: usize,
    /// Maximum length of a stop string in bytes.
    pub stop_len: usize,
    /// Maximum number of logit biases, and of stop tokens.
    pub logit_biases: usize,
    /// Maximum number of top logprobs per token.
    pub top_logprobs: u32,
    /// Maximum number of messages in a conversation.
    pub messages: usize,
    /// Policy for fields of requests that nothing here knows.
    pub unknown_fields: UnknownFieldPolicy,
}

/// Policy for fields of requests that nothing here knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFieldPolicy {
    /// An error, so that a misspelled name is noticed.
    #[default]
    Reject,
    /// Ignored, and listed in the header `x-wf-ignored-fields` of the response.
    Ignore,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_len: 4 << 20,
            json_depth: 64,
            json_parts: 64 << 10,
            json_values: 1 << 20,
            field_values: 64 << 10,
            bodies_len: 256 << 20,
            uri_len: 8 << 10,
            headers: 64,
            head_len: 16 << 10,
            read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(600),
            keep_alive: Duration::from_secs(15),
            connections: 16 << 10,
            choices: 8,
            sequences: 256,
            embedding_inputs: 2048,
            stop_strings: 16,
            stop_len: 256,
            logit_biases: 1024,
            top_logprobs: 20,
            messages: 4096,
            unknown_fields: UnknownFieldPolicy::Reject,
        }
    }
}

/// Returns the sampling parameters of OpenAI's API, which hold where neither the request, the model
/// nor the command line sets one.
pub fn default_sampling() -> SamplingParams {
    SamplingParams { temperature: 1.0, ..SamplingParams::default() }
}
