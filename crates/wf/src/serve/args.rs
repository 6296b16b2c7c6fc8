//! The flags of `wf serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args as ClapArgs;
use clap::ValueEnum;

use wf_core::SamplingOverrides;
use wf_server::{FileStore, StoreLimits, TrustedProxy, UnknownFieldPolicy};

use crate::args::{
    DecodingArgs, DiskCacheArgs, EngineArgs, parse_count, parse_seconds, parse_size, parse_whole,
};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  wf serve                                  the built-in demo on http://127.0.0.1:30000
  wf serve bitnet-2b.gguf --port 8080       another model and port
  wf serve small.gguf large.gguf --memory 4G
                                            two models, loaded on demand
  wf serve --host 0.0.0.0 --api-key-file keys.txt
                                            for other machines, with one API key per line of a file
For more, see docs/operations.md."
)]
pub(crate) struct ServeArgs {
    /// Models: the first is the default of requests, the others are loaded on demand [default: WF_MODEL,
    /// or the built-in demo]
    pub(crate) model: Vec<PathBuf>,

    /// Model
    #[arg(long = "model", short = 'm', alias = "model-path", value_name = "MODEL", hide = true)]
    pub(crate) model_flag: Vec<PathBuf>,

    /// TOML file with options, named like the flags; flags and variables override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Name of the model in requests; can be repeated; * accepts every name [default: that of the model
    /// file]. With several models, one name for each
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) served_model_name: Vec<String>,

    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    #[command(flatten)]
    pub(crate) disk_cache: DiskCacheArgs,
    #[command(flatten)]
    pub(crate) defaults: DefaultsArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Address to listen on; one that is reachable from other machines requires an API key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = parse_host)]
    pub(crate) host: IpAddr,

    /// Port to listen on; 0 selects a free one
    #[arg(long, short, value_name = "PORT", default_value = "30000",
          value_parser = parse_whole::<u16>)]
    pub(crate) port: u16,

    /// Listen on a Unix socket instead
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// TLS certificate chain, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of the TLS certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// MCP server (streamable HTTP) whose tools users of the chat page may switch on; can be repeated
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_mcp_server)]
    pub(crate) mcp_server: Vec<String>,

    /// Do not serve the chat page
    #[arg(long)]
    pub(crate) no_page: bool,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// API key that clients must send; can be repeated. Other users of this machine can see flags:
    /// prefer the variable or --api-key-file
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub(crate) api_key: Vec<String>,

    /// File with one API key per line, followed by its limits (docs/operations.md); read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// API key for operators: flushes the cache, and sees the requests of all callers; can be repeated
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub(crate) admin_key: Vec<String>,

    /// Accept requests without an API key on an address that other machines can reach
    #[arg(long)]
    pub(crate) no_key: bool,

    /// Address of a proxy whose X-Forwarded-For names its clients, or unix for the peer of --socket; can be
    /// repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<TrustedProxy>,

    /// Additional allowed Host header, or * for any; can be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,

    /// Allowed CORS origin (scheme, host and port), or * for any; can be repeated
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum number of sequences of a step; others wait or take turns
    #[arg(long, visible_alias = "max-sequences", value_name = "N", default_value = "32",
          value_parser = parse_count)]
    pub(crate) max_running: usize,

    /// Maximum number of waiting sequences; further requests get 429
    #[arg(long, value_name = "N", default_value = "512", value_parser = parse_count)]
    pub(crate) max_waiting: usize,

    /// Memory for the K/V cache, such as 2G [default: four full contexts, or half of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) kv_memory: Option<usize>,

    /// Memory for several models, such as 8G: the least recently used leaves for another [default: the free
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<usize>,

    /// Lock all memory, so that nothing is swapped out
    #[arg(long)]
    pub(crate) mlock: bool,

    /// Maximum duration of a request
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_seconds)]
    pub(crate) deadline: u64,

    /// Time for requests in flight to finish when the server stops
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_whole::<u32>)]
    pub(crate) drain: u32,

    /// Maximum size of a request body
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub(crate) max_body: usize,

    /// Fields of requests that are not known: rejected, or ignored and listed in a header of the response
    #[arg(long, value_name = "POLICY", default_value = "reject")]
    pub(crate) unknown_fields: UnknownFields,
}

/// Policy for fields of requests that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownFields {
    /// Respond with 400, so that a misspelled name is noticed
    Reject,
    /// Ignore them, and list them in the header x-wf-ignored-fields
    Ignore,
}

impl From<UnknownFields> for UnknownFieldPolicy {
    fn from(fields: UnknownFields) -> Self {
        match fields {
            UnknownFields::Reject => Self::Reject,
            UnknownFields::Ignore => Self::Ignore,
        }
    }
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Files and batches")]
pub(crate) struct FilesArgs {
    /// Directory for the files and batches of callers: enables /v1/files and /v1/batches
    #[arg(long, value_name = "DIR")]
    pub(crate) files_dir: Option<PathBuf>,

    /// Maximum size of an uploaded file
    #[arg(long, value_name = "SIZE", default_value = "200M", value_parser = parse_size)]
    pub(crate) max_file: usize,

    /// Maximum size of all stored files
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = parse_size)]
    pub(crate) max_stored: usize,
}

impl FilesArgs {
    /// Opens the directory, if there is one.
    pub(crate) fn open(&self) -> anyhow::Result<Option<FileStore>> {
        let Some(dir) = &self.files_dir else { return Ok(None) };
        let limits = StoreLimits {
            file_len: self.max_file as u64,
            stored_len: self.max_stored as u64,
            ..StoreLimits::default()
        };
        let at = || format!("--files-dir {}", dir.display());
        Ok(Some(FileStore::open(dir, limits).with_context(at)?))
    }
}

/// Sampling parameters of requests that do not set them.
#[derive(ClapArgs)]
#[command(
    next_help_heading = "Default sampling parameters of requests [default: those of the model]"
)]
pub(crate) struct DefaultsArgs {
    #[command(flatten)]
    pub(crate) params: SamplingOverrides,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Log level: error, warn, info, debug or trace, or a filter as for RUST_LOG
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: String,

    /// Send traces of requests to an OpenTelemetry collector, such as http://localhost:4318
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// Do not serve /metrics
    #[arg(long)]
    pub(crate) no_metrics: bool,

    /// First part of the names of metrics, such as vllm for dashboards made for it
    #[arg(long, value_name = "NAME", default_value = "wf", value_parser = parse_prefix)]
    pub(crate) metrics_prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line
    Json,
}

pub(crate) fn parse_host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text.parse().map_err(|_| "must be an IP address, such as 127.0.0.1 or ::".to_owned()),
    }
}

/// Parses the address of an MCP server. It becomes a part of the page's content security policy, which has no
/// queries, and in which other characters would mean something else.
pub(crate) fn parse_mcp_server(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/%[]".contains(c);
    match rest {
        Some(rest) if !rest.starts_with('/') && !rest.is_empty() && rest.chars().all(is_plain) => {
            Ok(text.to_owned())
        }
        _ => Err("must be a URL without query, such as http://localhost:8000/mcp".to_owned()),
    }
}

/// Parses the first part of the name of a metric.
fn parse_prefix(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && text.chars().all(is_name) {
        return Ok(text.to_owned());
    }
    Err("must be letters, digits and underscores, such as wf or vllm".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_mcp_servers_fit_into_a_policy() {
        for right in ["http://localhost:8000/mcp", "https://[::1]/a%20b", "http://a"] {
            assert_eq!(parse_mcp_server(right), Ok(right.to_owned()));
        }
        for wrong in
            ["", "localhost", "ftp://a", "http://", "http:///x", "http://a;b", "http://a b"]
        {
            assert!(parse_mcp_server(wrong).is_err(), "{wrong}");
        }
        for wrong in ["http://a?b=1", "http://u@a/", "http://a/'self'", "http://a/*", "http://a#b"]
        {
            assert!(parse_mcp_server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefixes_are_names() {
        assert_eq!(parse_prefix("vllm").as_deref(), Ok("vllm"));
        for wrong in ["", "9x", "a:b", "a-b", "é"] {
            assert!(parse_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
