//! `wf health`: asks a running server whether it serves, for health checks of containers and for scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use serde::Deserialize;
use tokio::runtime::Builder;
use wf_api::http::{Client, Timeouts};

use crate::args::{parse_seconds, parse_whole};
use crate::output;
use crate::serve::args::parse_host;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
The exit code is 0 if the server is healthy, and 1 if it is not, with the reason on standard error. The
server is found by the same variables as wf serve uses (WF_HOST, WF_PORT, WF_SOCKET), so that a check in
the same container needs no argument.

Examples:
  wf health                                 the server on http://127.0.0.1:30000
  wf health http://10.0.0.7:8080            another one
  wf health --live                          healthy as soon as the process responds"
)]
pub(crate) struct HealthArgs {
    /// Server, such as http://host:port, https://host:port or unix:/path [default: that of the options below]
    pub(crate) url: Option<String>,

    /// Address that the server listens on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = parse_host)]
    pub(crate) host: IpAddr,

    /// Port that the server listens on
    #[arg(long, short, value_name = "PORT", default_value = "30000",
          value_parser = parse_whole::<u16>)]
    pub(crate) port: u16,

    /// Unix socket that the server listens on
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// File with certificates in PEM, to accept servers that they have signed
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,

    /// Accept a server that is still loading its model
    #[arg(long)]
    pub(crate) live: bool,

    /// Maximum duration of the check
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub(crate) timeout: u64,
}

/// State of a server. Servers of others may have none of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Health {
    model: Option<String>,
    running: Option<usize>,
    waiting: Option<usize>,
}

pub(crate) fn health(args: &HealthArgs) -> Result<()> {
    let url = args.server();
    let limit = Duration::from_secs(args.timeout);
    let timeouts = Timeouts { connect: limit, response: limit, idle: limit };
    let client = Client::new(&url)?.trusting(args.ca_cert.as_deref())?.with_timeouts(timeouts);
    let path = if args.live { "/livez" } else { "/health" };
    let runtime = Builder::new_current_thread().enable_all().build().context("starting threads")?;
    let state =
        runtime.block_on(async { tokio::time::timeout(limit, client.get_text(path)).await });
    let state = state
        .with_context(|| format!("{url} is not healthy: no response within {} s", args.timeout))?
        .with_context(|| format!("{url} is not healthy"))?;
    output::stream(&format!("{}\n", describe(&url, &state)))
}

impl HealthArgs {
    fn server(&self) -> String {
        if let Some(url) = &self.url {
            // Other programs expect the URL to include the version of the API.
            return url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        }
        if let Some(path) = &self.socket {
            return format!("unix:{}", path.display());
        }
        // A server that listens on every address is asked on one.
        let host = match self.host {
            IpAddr::V4(host) if host.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(host) if host.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            host => host,
        };
        format!("http://{}", SocketAddr::new(host, self.port))
    }
}

fn describe(url: &str, state: &str) -> String {
    let Health { model, running, waiting } = serde_json::from_str(state).unwrap_or_default();
    let model = model.map_or(String::new(), |model| format!(": {model}"));
    let count = |number: Option<usize>, what| match number {
        Some(number) => format!(", {number} {what}"),
        None => String::new(),
    };
    format!("{url} is healthy{model}{}{}", count(running, "running"), count(waiting, "waiting"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: HealthArgs,
    }

    #[test]
    fn the_server_is_found_as_it_was_started() {
        for (flags, url) in [
            (&[][..], "http://127.0.0.1:30000"),
            (&["--host", "0.0.0.0", "--port", "81"], "http://127.0.0.1:81"),
            (&["--host", "::"], "http://[::1]:30000"),
            (&["--host", "10.0.0.7"], "http://10.0.0.7:30000"),
            (&["--socket", "/run/wf.sock"], "unix:/run/wf.sock"),
            (&["http://host:1/v1/", "--port", "81"], "http://host:1"),
        ] {
            let args = Wrapper::parse_from([&["x"], flags].concat()).args;
            assert_eq!(args.server(), url, "{flags:?}");
        }
    }

    #[test]
    fn other_servers_need_not_describe_themselves() {
        assert_eq!(describe("u", ""), "u is healthy");
        let state = r#"{"status":"healthy","model":"m","running":2,"waiting":0}"#;
        assert_eq!(describe("u", state), "u is healthy: m, 2 running, 0 waiting");
    }
}
