//! The flags of `wf serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::ValueEnum;

use wf_core::SamplingOverrides;

use crate::args::{DecodingArgs, EngineArgs, parse_count, parse_seconds, parse_whole};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  wf serve                                  the built-in demo on http://127.0.0.1:30000
  wf serve bitnet-2b.gguf --port 8080       another model and port
  wf serve --host 0.0.0.0 --api-key-file keys.txt
                                            for other machines, with one API key per line of a file
For more, see docs/operations.md."
)]
pub(crate) struct ServeArgs {
    /// Model [default: WF_MODEL, or the built-in demo]
    pub(crate) model: Option<PathBuf>,

    /// Model
    #[arg(long = "model", alias = "model-path", value_name = "MODEL", hide = true)]
    pub(crate) model_flag: Option<PathBuf>,

    /// TOML file with options, named like the flags; flags and variables override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Name of the model in requests; can be repeated [default: that of the model file]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) served_model_name: Vec<String>,

    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line
    Json,
}

fn parse_host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text.parse().map_err(|_| "must be an IP address, such as 127.0.0.1 or ::".to_owned()),
    }
}

/// Parses a size in bytes, with a suffix K, M or G for powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let invalid = || "must be a size, such as 512M or 2G".to_owned();
    let text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: f64 = number.trim().parse().map_err(|_| invalid())?;
    let bytes = number * f64::from(1 << shift);
    if bytes >= 1.0 && bytes <= isize::MAX as f64 { Ok(bytes as usize) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_size("2GB"), Ok(2 << 30));
        for wrong in ["", "G", "-1", "1T", "nan", "1e30G", "0"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
