//! The flags of `wf serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::ValueEnum;

use crate::args::{
    ComputeArgs, DecodingArgs, FileArgs, HeadArgs, parse_count, parse_number, parse_whole,
};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  wf serve                                  the built-in demo on http://127.0.0.1:30000
  wf serve bitnet-2b.gguf --port 8080       a model of your own, for any OpenAI client
  wf serve --host 0.0.0.0 --api-key-file keys.txt
                                            for other machines, with a key for each line of a file
docs/operations.md has more."
)]
pub(crate) struct ServeArgs {
    /// The model [default: WF_MODEL, or the built-in demo]
    pub(crate) model: Option<PathBuf>,

    /// Another way to name the model
    #[arg(
        long = "model",
        alias = "model-path",
        env = "WF_MODEL",
        value_name = "MODEL",
        hide = true
    )]
    pub(crate) model_flag: Option<PathBuf>,

    /// Settings in TOML, named like the flags; a flag or a variable beats them
    #[arg(long, env = "WF_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// What requests call the model; may be given several times [default: its own name]
    #[arg(long, env = "WF_SERVED_MODEL_NAME", value_name = "NAME", value_delimiter = ',')]
    pub(crate) served_model_name: Vec<String>,

    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) defaults: DefaultsArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Where to listen.
#[derive(ClapArgs)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// The address to listen on; one that others can reach needs a key
    #[arg(long, env = "WF_HOST", value_name = "ADDRESS", default_value = "127.0.0.1",
          value_parser = parse_host)]
    pub(crate) host: IpAddr,

    /// The port; 0 takes a free one
    #[arg(long, short, env = "WF_PORT", value_name = "PORT", default_value = "30000",
          value_parser = parse_whole::<u16>)]
    pub(crate) port: u16,

    /// Listen on a Unix socket instead
    #[arg(long, env = "WF_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Encrypt connections with this certificate, and those that vouch for it, in PEM
    #[arg(long, env = "WF_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, env = "WF_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Do not serve the chat page
    #[arg(long, env = "WF_NO_PAGE")]
    pub(crate) no_page: bool,
}

/// Who may use the server.
#[derive(ClapArgs)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// A key that opens the server; may be given several times. Other users of this machine can see
    /// flags: prefer the variable or the file
    #[arg(
        long,
        env = "WF_API_KEY",
        value_name = "KEY",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub(crate) api_key: Vec<String>,

    /// A file with a key on each line
    #[arg(long, env = "WF_API_KEY_FILE", value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Let everybody in who can reach the address, without a key
    #[arg(long, env = "WF_NO_KEY")]
    pub(crate) no_key: bool,

    /// A further name the server may be called by, or * for any; may be given several times
    #[arg(long, env = "WF_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,

    /// An origin whose pages may use the server (scheme, host and port), or * for any
    #[arg(long, env = "WF_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,
}

/// How much at once.
#[derive(ClapArgs)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Most replies computed at once; others wait
    #[arg(long, visible_alias = "max-sequences", env = "WF_MAX_RUNNING", value_name = "N",
          default_value = "32", value_parser = parse_count)]
    pub(crate) max_running: usize,

    /// Most replies that wait; more get 429
    #[arg(long, env = "WF_MAX_WAITING", value_name = "N", default_value = "512",
          value_parser = parse_count)]
    pub(crate) max_waiting: usize,

    /// Memory for keys and values, such as 2G [default: four full contexts, or half of what is free]
    #[arg(long, env = "WF_KV_MEMORY", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) kv_memory: Option<usize>,

    /// Keep the model and all else in memory, never in swap
    #[arg(long, env = "WF_MLOCK")]
    pub(crate) mlock: bool,

    /// Seconds after which a reply ends, finished or not
    #[arg(long, env = "WF_DEADLINE", value_name = "SECONDS", default_value = "600",
          value_parser = parse_count)]
    pub(crate) deadline: usize,

    /// Seconds that replies have to finish when the server is told to stop
    #[arg(long, env = "WF_DRAIN", value_name = "SECONDS", default_value = "30",
          value_parser = parse_whole::<u32>)]
    pub(crate) drain: u32,

    /// Largest body of a request
    #[arg(long, env = "WF_MAX_BODY", value_name = "SIZE", default_value = "4M",
          value_parser = parse_size)]
    pub(crate) max_body: usize,
}

/// What holds where a request does not say.
#[derive(ClapArgs)]
#[command(next_help_heading = "Sampling where a request does not say [default: the model's own]")]
pub(crate) struct DefaultsArgs {
    /// 0 takes the best token each time [default: 1]
    #[arg(long, env = "WF_TEMPERATURE", value_name = "T", value_parser = parse_number)]
    pub(crate) temperature: Option<f32>,

    /// Choose among the K best tokens only; 0 is all
    #[arg(long, env = "WF_TOP_K", value_name = "K", value_parser = parse_whole::<usize>)]
    pub(crate) top_k: Option<usize>,

    /// Choose among the best tokens that together have this probability
    #[arg(long, env = "WF_TOP_P", value_name = "P", value_parser = parse_number)]
    pub(crate) top_p: Option<f32>,

    /// Leave out tokens less likely than this share of the best one's probability
    #[arg(long, env = "WF_MIN_P", value_name = "P", value_parser = parse_number)]
    pub(crate) min_p: Option<f32>,

    /// Divide the scores of tokens already seen by this
    #[arg(long, env = "WF_REPETITION_PENALTY", value_name = "X", value_parser = parse_number)]
    pub(crate) repetition_penalty: Option<f32>,
}

/// What is told while serving.
#[derive(ClapArgs)]
#[command(next_help_heading = "Telling")]
pub(crate) struct LogArgs {
    /// The form of the log on standard error
    #[arg(long, env = "WF_LOG_FORMAT", value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// What to log: error, warn, info, debug or trace, also by part, as for RUST_LOG
    #[arg(long, env = "WF_LOG", value_name = "LEVEL", default_value = "info")]
    pub(crate) log: String,

    /// Send a trace of each request to this OpenTelemetry collector, such as http://localhost:4318
    #[arg(long, env = "WF_OTLP", value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// Do not answer at /metrics
    #[arg(long, env = "WF_NO_METRICS")]
    pub(crate) no_metrics: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// An object a line, for programs
    Json,
}

fn parse_host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text.parse().map_err(|_| "an address is needed, such as 127.0.0.1 or ::".to_owned()),
    }
}

/// Bytes, with a letter for a power of 1024.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let wrong = || "a size is needed, such as 512M or 2G".to_owned();
    let text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * f64::from(1 << shift);
    if bytes >= 1.0 && bytes <= isize::MAX as f64 { Ok(bytes as usize) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_letters() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_size("2GB"), Ok(2 << 30));
        for wrong in ["", "G", "-1", "1T", "nan", "1e30G", "0"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
