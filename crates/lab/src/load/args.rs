//! The flags of `wf load`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::parse;

/// A server and how to connect to it.
#[derive(Args)]
pub struct ServerArgs {
    /// Address of the server: http://host:port, https://host:port, or unix:/path/to/socket
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:30000")]
    pub url: String,

    /// API key, if the server requires one
    #[arg(long, value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,

    /// File with certificates in PEM, to accept servers that they have signed
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,

    /// Maximum duration of a request
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_seconds)]
    pub timeout: f64,
}

/// Endpoints that requests are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ApiChoice {
    /// /v1/chat/completions
    Chat,
    /// /v1/completions
    Completions,
    /// Both, half each
    Mixed,
}

/// Options of a load test.
#[derive(Args)]
#[command(
    args_override_self = true,
    after_help = "\
Without --prompts, prompts are generated stories of many lengths, half of them with one of four
shared prefixes. All randomness depends on --seed alone.

Requests rejected with 429 are retried when the server says, and do not count as failed. The exit
code is 1 if a request failed, a response differed, an event was lost or duplicated, or the server's
metrics do not match what was received. docs/load.md explains the report.

Examples:
  wf load                                        64 requests, 8 at a time: is it up, how fast is it
  wf load --requests 2000 --concurrency 256 --check --logprobs
                                                 is every response the same as without load
  wf load --rate 20 --requests 600               20 new requests a second, regardless of responses
  wf load --requests 5000 --concurrency 64 --cancel 0.5 --check
                                                 half of the clients disconnect at a random moment
  wf load --hold 1000 --max-tokens 64            1000 streams open at once
  wf load --prefix 1500                          speedup by the prefix cache
  wf load --fairness                             wait of short requests beside greedy ones"
)]
pub struct LoadArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Number of requests to send
    #[arg(long, value_name = "N", default_value = "64", value_parser = parse::count::<usize>)]
    pub(super) requests: usize,

    /// Number of requests in flight at any time
    #[arg(long, value_name = "N", default_value = "8", value_parser = parse::count::<usize>)]
    pub(super) concurrency: usize,

    /// Number of new requests per second, at random times, however many are in flight
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,

    /// Compare each response with that of the same request sent alone before: token ids, logprob
    /// bits, text, finish reason, usage
    #[arg(long)]
    pub(super) check: bool,

    /// Do not compare the server's metrics with what was received, because other clients use it too
    #[arg(long)]
    pub shared: bool,

    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) faults: FaultArgs,

    /// Open N streams, read none until all are open, then read all to their ends
    #[arg(long, value_name = "N", value_parser = parse::count::<usize>,
          conflicts_with_all = ["prefix", "rate"], help_heading = "Other measurements")]
    pub(super) hold: Option<usize>,

    /// Measure the time to the first token of a prompt of TOKENS tokens, uncached and cached
    #[arg(long, value_name = "TOKENS", value_parser = parse::count::<usize>,
          help_heading = "Other measurements")]
    pub prefix: Option<usize>,

    /// Measure the time to the first token of short requests beside callers that ask for as much as they can:
    /// long replies, blocks, drafts, prompts
    #[arg(long, conflicts_with_all = ["prefix", "hold", "rate"], help_heading = "Other measurements")]
    pub fairness: bool,

    /// API key of the others in --fairness [default: the same caller]
    #[arg(
        long,
        value_name = "KEY",
        hide_env_values = true,
        requires = "fairness",
        help_heading = "Other measurements"
    )]
    pub(super) abuser_key: Option<String>,

    /// Print a JSON object instead of a table
    #[arg(long, help_heading = "Report")]
    pub json: bool,

    /// Draw latencies and tokens per second into an SVG file
    #[arg(long, value_name = "FILE.svg", help_heading = "Report")]
    pub plot: Option<PathBuf>,
}

impl LoadArgs {
    /// Returns the file with prompts, if one is given.
    pub fn prompts(&self) -> Option<&Path> {
        self.workload.file.as_deref()
    }

    /// Returns an error message if the flags contradict each other.
    pub fn check(&self) -> Result<(), String> {
        let FaultArgs { cancel, stall, dribble, slow_send, .. } = self.faults;
        let share = cancel + stall + dribble + slow_send;
        let message = || {
            format!(
                "--cancel, --stall, --dribble and --slow-send add up to {share}: must be at most 1"
            )
        };
        if share <= 1.0 { Ok(()) } else { Err(message()) }
    }
}

#[derive(Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct WorkloadArgs {
    /// File with one prompt per line [default: generated prompts, see below]
    #[arg(long = "prompts", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// Number of distinct prompts to generate
    #[arg(long, value_name = "N", default_value = "64", value_parser = parse::count::<usize>)]
    pub(super) distinct: usize,

    /// Endpoints to send requests to
    #[arg(long, value_name = "API", default_value = "mixed")]
    pub(super) api: ApiChoice,

    /// Maximum number of tokens to generate; generated prompts request a quarter of it up to all
    #[arg(long, short = 'n', value_name = "N", default_value = "32",
          value_parser = parse::count::<u32>)]
    pub(super) max_tokens: u32,

    /// Fraction of requests with a streamed response
    #[arg(long, value_name = "FRACTION", default_value = "0.5", value_parser = parse::fraction)]
    pub(super) share_streamed: f64,

    /// Fraction of prompts that are sampled with a seed; the others are greedy
    #[arg(long, value_name = "FRACTION", default_value = "0.5", value_parser = parse::fraction)]
    pub(super) share_seeded: f64,

    /// Request log probabilities, including the two likeliest tokens at each position
    #[arg(long)]
    pub(super) logprobs: bool,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value = "0")]
    pub(super) seed: u64,
}

#[derive(Args)]
#[command(
    next_help_heading = "Fault injection (at a random byte of the response, or a random time)"
)]
pub(super) struct FaultArgs {
    /// Fraction of requests whose client disconnects
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = parse::fraction)]
    pub(super) cancel: f64,

    /// Fraction of requests whose client stops reading for --stall-for
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = parse::fraction)]
    pub(super) stall: f64,

    /// Duration of a stall
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub(super) stall_for: f64,

    /// Fraction of requests whose response is read byte by byte, at --dribble-rate
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = parse::fraction)]
    pub(super) dribble: f64,

    /// Fraction of requests that are sent byte by byte, at --dribble-rate
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = parse::fraction)]
    pub(super) slow_send: f64,

    /// Speed of --dribble and --slow-send
    #[arg(long, value_name = "BYTES_PER_SECOND", default_value = "1000",
          value_parser = parse_dribble_rate)]
    pub(super) dribble_rate: f64,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse::between(text, 0.001, 1e6)
}

/// Timers have a resolution of a millisecond, so single bytes cannot be sent faster than that.
fn parse_dribble_rate(text: &str) -> Result<f64, String> {
    parse::between(text, 0.001, 1e3)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    parse::between(text, 0.001, 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_have_a_range() {
        assert_eq!((parse_rate("2000"), parse_dribble_rate("20")), (Ok(2000.0), Ok(20.0)));
        assert!(parse_dribble_rate("2000").is_err());
        assert_eq!(parse_seconds("2.5"), Ok(2.5));
        for wrong in ["0", "-1", "inf", "fast"] {
            assert!(parse_rate(wrong).is_err() && parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
