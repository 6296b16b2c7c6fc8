//! `wf batch`: runs a file of requests in OpenAI's batch format.

mod remote;
mod width;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args as ClapArgs;
use serde::Serialize;
use tokio::runtime::Builder;
use wf_api::http::Client;
use wf_core::SamplingOverrides;
use wf_engine::RunOptions;
use wf_server::batch::{
    BatchFileError, BatchInput, BatchResult, BatchResults, Caller, InputLimits, LocalCaller,
    run_batch,
};
use wf_server::{App, Hosts, Keys, Limits, SaltKey, ServedModel, ServerOptions};

use self::remote::RemoteCaller;
use crate::args::{DecodingArgs, EngineArgs, RemoteArgs, parse_count};
use crate::serve::model::{defaults, description, listing};
use crate::{memory, open, output, progress};

/// Maximum duration of a request: a batch may wait where a person would not.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of waiting sequences: more than any request has, times those in flight.
const MAX_WAITING: usize = 1 << 20;
/// Threads for templates and tokenizing.
const TEXT_THREADS: usize = 4;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Each line of IN is a request: {\"custom_id\": \"1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\",
\"body\": {...}}. Each line of OUT is a result with the same custom_id, in the order in which they finish.
A batch that was interrupted continues where it was if the same command is run again.

Examples:
  wf batch requests.jsonl results.jsonl                          the built-in demo
  wf batch requests.jsonl others.jsonl --model bitnet-2b.gguf    another model
  wf batch requests.jsonl more.jsonl --url http://127.0.0.1:30000"
)]
pub(crate) struct BatchArgs {
    /// Requests, one per line
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,

    /// Results, one per line; those that it has already are kept
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Model [default: WF_MODEL, or the built-in demo]. With --url: name for requests without one
    #[arg(long, short, alias = "model-path", value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Number of requests in flight [default: 32 to 128, as the K/V cache has room; with --url, what the
    /// server runs at once, or 32 if it does not say]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) concurrency: Option<usize>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) server: RemoteArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Totals of a batch.
#[derive(Default, Serialize)]
struct Summary {
    requests: usize,
    /// Results that were there already.
    earlier: usize,
    succeeded: usize,
    failed: usize,
}

pub(crate) fn batch(args: &BatchArgs) -> Result<()> {
    let input = BatchInput::check(&args.input, InputLimits::NONE)?;
    let results = BatchResults::open(&args.output, &input)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(TEXT_THREADS)
        .enable_all()
        .build()
        .context("starting threads")?;
    let summary = match &args.server.url {
        Some(url) => {
            let client = args.server.client(url)?;
            let width = args.concurrency;
            let width = width.unwrap_or_else(|| runtime.block_on(width::of_server(&client)));
            runtime.block_on(run(width, &input, results, remote(args, client)?))?
        }
        None => {
            let (app, width) = local(args)?;
            let caller = LocalCaller::new(wf_server::router(&app));
            runtime.block_on(run(width, &input, results, caller))?
        }
    };
    report(args, &summary)
}

fn remote(args: &BatchArgs, client: Client) -> Result<RemoteCaller> {
    ensure!(
        args.decoding.is_default(),
        "--decode and other decoding options cannot be used with --url: set them on the server"
    );
    let model = args.model.as_deref().map(|model| model.to_str().map(str::to_owned));
    let model = model.map(|model| model.context("--model is not valid UTF-8")).transpose()?;
    Ok(RemoteCaller::new(client, model))
}

/// Runs the requests that have no result yet, `width` at a time.
async fn run(
    width: usize,
    input: &BatchInput,
    mut results: BatchResults,
    caller: impl Caller,
) -> Result<Summary> {
    let (done, _) = results.take_done();
    let mut summary = Summary { requests: input.len(), earlier: done.len(), ..Summary::default() };
    let bar = progress::requests(input.len(), done.len());
    let pending = input.pending(done)?;
    let finish = |result: BatchResult| -> Result<(), Failure> {
        match result.is_success() {
            true => summary.succeeded += 1,
            false => summary.failed += 1,
        }
        results.append(&result)?;
        bar.inc(1);
        Ok(())
    };
    let pending = pending.map(|line| line.map_err(Failure::from));
    let finished = run_batch(pending, caller, width, finish).await;
    bar.finish_and_clear();
    results.sync()?;
    finished.map_err(|Failure(error)| {
        let left = summary.requests - summary.earlier - summary.succeeded - summary.failed;
        let left = output::count(left, "request");
        error.context(format!("{left} left: run the same command again to continue"))
    })?;
    Ok(summary)
}

/// An error that ends a batch.
struct Failure(anyhow::Error);

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self(anyhow!(message))
    }
}

impl From<BatchFileError> for Failure {
    fn from(error: BatchFileError) -> Self {
        Self(error.into())
    }
}

/// Starts a server without a socket. Returns the number of requests to send to it at once, too.
fn local(args: &BatchArgs) -> Result<(App, usize)> {
    let options = RunOptions {
        kv_capacity: memory::kv_capacity(),
        max_running: args.concurrency.unwrap_or(width::MAX_WIDTH),
        // A request may have several sequences, and none is turned away.
        max_waiting: MAX_WAITING,
        digest: true,
        ..args.engine.options()
    };
    let draft = args.decoding.draft.as_deref();
    let model = open::model(args.model.as_deref(), draft, &options)?;
    let limits = Limits { deadline: DEADLINE, body_len: 64 << 20, ..Limits::default() };
    let app = App::new(ServerOptions {
        keys: Keys::default(),
        hosts: Hosts::default(),
        limits,
        drain: Duration::ZERO,
        metrics: false,
        metrics_prefix: "wf".into(),
        page: false,
        mcp_servers: Vec::new(),
        files: None,
        salt_key: SaltKey::default(),
        tls: None,
        proxies: Vec::new(),
    });
    let decode = args.decoding.mode(&model.frontend)?;
    let defaults = defaults(&SamplingOverrides::default(), &model.generation_defaults)?;
    let listing = listing(&model.format, &model.info, args.model.as_deref());
    let kv_tokens = model.frontend.engine().kv_tokens();
    let width = args.concurrency.unwrap_or_else(|| width::of_cache(kv_tokens));
    let description = description(&model, listing, &args.engine, decode, defaults, width);
    app.set_model(ServedModel::new(model.frontend, description));
    Ok((app, width))
}

fn report(args: &BatchArgs, summary: &Summary) -> Result<()> {
    let Summary { requests, earlier, succeeded, failed } = summary;
    match args.json {
        true => output::json(summary)?,
        false => output::table(&[
            ("requests", format!("{requests}, {earlier} of them done earlier")),
            ("succeeded", succeeded.to_string()),
            ("failed", failed.to_string()),
        ])?,
    }
    if *failed > 0 {
        bail!(
            "{failed} of {requests} requests failed: their results in {} say why",
            args.output.display()
        );
    }
    Ok(())
}
