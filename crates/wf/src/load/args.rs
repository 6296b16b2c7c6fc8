//! The flags of `wf load`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Which server, and who asks.
#[derive(ClapArgs)]
pub(crate) struct ServerArgs {
    /// The server: http://host:port, or unix:/path/to/socket
    #[arg(long, env = "WF_URL", value_name = "URL", default_value = "http://127.0.0.1:30000")]
    pub(crate) url: String,

    /// A key, if the server wants one
    #[arg(long, env = "WF_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// The longest a request may take, all in all
    #[arg(long, env = "WF_TIMEOUT", value_name = "SECONDS", default_value = "600",
          value_parser = parse_seconds)]
    pub(crate) timeout: f64,
}

/// Which part of the API is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiChoice {
    /// /v1/chat/completions
    Chat,
    /// /v1/completions
    Completions,
    /// Both, half and half
    Mixed,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Without --prompts the prompts are stories made up on the spot: many lengths, half of them with one
of four beginnings in common. Everything random depends on --seed alone.

Requests refused with 429 are sent again when the server says, and are no failures. The exit code
is 1 when a request failed, a reply differed, an event was lost or came twice, or the server
counted something else than was seen here. docs/load.md says how to read the report.

Examples:
  wf load                                        64 requests, 8 at once: is it alive, how fast
  wf load --requests 2000 --concurrency 256 --check --logprobs
                                                 is every reply what it would be alone
  wf load --rate 20 --requests 600               20 new requests a second, whatever happens
  wf load --requests 5000 --concurrency 64 --cancel 0.5 --check
                                                 half of the clients hang up at a random moment
  wf load --hold 1000 --max-tokens 64            1000 streams open at once
  wf load --prefix 1500                          what the prefix cache saves"
)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Requests to send
    #[arg(long, env = "WF_REQUESTS", value_name = "N", default_value = "64",
          value_parser = parse_count)]
    pub(crate) requests: usize,

    /// Requests under way at any time
    #[arg(long, env = "WF_CONCURRENCY", value_name = "N", default_value = "8",
          value_parser = parse_count)]
    pub(crate) concurrency: usize,

    /// New requests a second, at random moments, however many are under way
    #[arg(long, env = "WF_RATE", value_name = "PER_SECOND", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,

    /// Compare each reply with that of the same request sent alone before: token ids, logprob bits,
    /// text, finish reason, usage
    #[arg(long, env = "WF_CHECK")]
    pub(crate) check: bool,

    /// Others use the server too: do not compare its counts with ours
    #[arg(long, env = "WF_SHARED")]
    pub(crate) shared: bool,

    #[command(flatten)]
    pub(crate) mix: MixArgs,
    #[command(flatten)]
    pub(crate) trouble: TroubleArgs,

    /// Instead: open N streams, read none before all are open, then all to their ends
    #[arg(long, env = "WF_HOLD", value_name = "N", value_parser = parse_count,
          conflicts_with_all = ["prefix", "rate"], help_heading = "Other measurements")]
    pub(crate) hold: Option<usize>,

    /// Instead: the time to the first token after TOKENS new ones, and after the same from the cache
    #[arg(long, env = "WF_PREFIX", value_name = "TOKENS", value_parser = parse_count,
          help_heading = "Other measurements")]
    pub(crate) prefix: Option<usize>,

    /// Print one JSON object instead of the table
    #[arg(long, env = "WF_JSON", help_heading = "Report")]
    pub(crate) json: bool,

    /// Draw latencies and tokens a second into an SVG file
    #[arg(long, value_name = "FILE.svg", help_heading = "Report")]
    pub(crate) plot: Option<PathBuf>,
}

/// What is asked.
#[derive(ClapArgs)]
#[command(next_help_heading = "What is asked")]
pub(crate) struct MixArgs {
    /// Prompts, one a line [default: made up, see below]
    #[arg(long = "prompts", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// How many different prompts to make up
    #[arg(long, env = "WF_DISTINCT", value_name = "N", default_value = "64",
          value_parser = parse_count)]
    pub(crate) distinct: usize,

    /// Which part of the API
    #[arg(long, env = "WF_API", value_name = "API", default_value = "mixed")]
    pub(crate) api: ApiChoice,

    /// Most tokens of a reply; made-up prompts ask for a quarter of it up to all
    #[arg(long, short = 'n', env = "WF_MAX_TOKENS", value_name = "N", default_value = "32",
          value_parser = parse_tokens)]
    pub(crate) max_tokens: u32,

    /// Share of requests whose reply is streamed
    #[arg(long, env = "WF_SHARE_STREAMED", value_name = "SHARE", default_value = "0.5",
          value_parser = parse_share)]
    pub(crate) share_streamed: f64,

    /// Share of prompts that are sampled with a seed; the others are greedy
    #[arg(long, env = "WF_SHARE_SEEDED", value_name = "SHARE", default_value = "0.5",
          value_parser = parse_share)]
    pub(crate) share_seeded: f64,

    /// Ask for log probabilities, also of the two likeliest tokens in each place
    #[arg(long, env = "WF_LOGPROBS")]
    pub(crate) logprobs: bool,

    /// What everything random depends on
    #[arg(long, env = "WF_SEED", value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
}

/// What clients do that they should not.
#[derive(ClapArgs)]
#[command(next_help_heading = "Trouble (at a random byte of the answer, or a random moment)")]
pub(crate) struct TroubleArgs {
    /// Share of requests that hang up
    #[arg(long, env = "WF_CANCEL", value_name = "SHARE", default_value = "0",
          value_parser = parse_share)]
    pub(crate) cancel: f64,

    /// Share of requests that stop reading for --stall-for, then go on
    #[arg(long, env = "WF_STALL", value_name = "SHARE", default_value = "0",
          value_parser = parse_share)]
    pub(crate) stall: f64,

    /// How long those stop
    #[arg(long, env = "WF_STALL_FOR", value_name = "SECONDS", default_value = "2",
          value_parser = parse_seconds)]
    pub(crate) stall_for: f64,

    /// Share of requests that read on at --dribble-rate, a byte at a time
    #[arg(long, env = "WF_DRIBBLE", value_name = "SHARE", default_value = "0",
          value_parser = parse_share)]
    pub(crate) dribble: f64,

    /// Share of requests that are sent at --dribble-rate, a byte at a time
    #[arg(long, env = "WF_SLOW_SEND", value_name = "SHARE", default_value = "0",
          value_parser = parse_share)]
    pub(crate) slow_send: f64,

    /// How fast those are
    #[arg(long, env = "WF_DRIBBLE_RATE", value_name = "BYTES_PER_SECOND", default_value = "1000",
          value_parser = parse_dribble)]
    pub(crate) dribble_rate: f64,
}

impl TroubleArgs {
    /// The share of requests with any trouble.
    pub(crate) fn share(&self) -> f64 {
        self.cancel + self.stall + self.dribble + self.slow_send
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

fn parse_tokens(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a number from 0 to 1 is needed, for example 0.25".to_owned())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "a number from 0.001 to 1000000 is needed".to_owned())
}

/// A timer has a tick of a millisecond: a byte at a time cannot be faster.
fn parse_dribble(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e3).contains(rate));
    rate.ok_or_else(|| "a number from 0.001 to 1000 is needed".to_owned())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds is needed, for example 2.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rates_and_times_have_a_range() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        for wrong in ["-0.1", "1.1", "NaN", "half"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_rate("2000"), parse_dribble("20")), (Ok(2000.0), Ok(20.0)));
        assert!(parse_dribble("2000").is_err());
        assert_eq!(parse_seconds("2.5"), Ok(2.5));
        for wrong in ["0", "-1", "inf", "fast"] {
            assert!(parse_rate(wrong).is_err() && parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
