//! `wf serve`: serves an OpenAI-compatible API.

pub(crate) mod args;
pub(crate) mod config;
mod keys;
#[cfg(all(test, feature = "otlp"))]
#[expect(dead_code, reason = "compiled for its test only")]
mod no_otlp;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod panics;
mod signals;

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use wf_core::{SamplingOverrides, SamplingParams};
use wf_engine::{KvCapacity, OpenedModel, RunOptions};
use wf_formats::GenerationDefaults;
use wf_server::{
    App, Hosts, Keys, Limits, Listener, ServedModel, ServerOptions, Tls, default_sampling,
};

use crate::output::UsageError;
use crate::serve::args::{DefaultsArgs, ListenArgs, LogArgs, LogFormat, ServeArgs};
use crate::serve::keys::KeySource;
use crate::serve::otlp::Traces;
use crate::{demo, memory, open, output};

/// Number of threads for connections. The engine has its own.
const IO_THREADS: usize = 2;
/// Maximum number of threads for templates and tokenizing.
const TEXT_THREADS: usize = 4;

pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    wf_kernels::limit_malloc_arenas();
    let is_public = args.listen.socket.is_none() && !args.listen.host.is_loopback();
    let source = KeySource::new(&args.access, is_public && !args.access.no_key);
    let keys = source.read()?;
    let tls = tls(&args.listen)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(IO_THREADS)
        .max_blocking_threads(TEXT_THREADS + 1)
        .thread_name("wf-io")
        .enable_all()
        .build()
        .context("starting threads")?;
    let traces = args.log.otlp.as_deref().map(Traces::start);
    let traces = traces.transpose()?;
    start_log(&args.log, traces.as_ref())?;
    let served = runtime.block_on(run(args, source, keys, tls));
    if let Some(Err(error)) = traces.map(|traces| traces.finish()) {
        output::note(&format!("warning: {}", output::explain(&error)));
    }
    served
}

async fn run(args: &ServeArgs, source: KeySource, keys: Keys, tls: Option<Tls>) -> Result<()> {
    let address = SocketAddr::new(args.listen.host, args.listen.port);
    let bound = wf_server::bind(address, args.listen.socket.clone()).await;
    let bound = bound.map_err(|error| match &args.listen.socket {
        Some(path) => anyhow!("listening on {}: {error}", path.display()),
        None => anyhow!("listening on {address}: {error}: {}", suggest_port(address)),
    })?;
    let app = App::new(options(args, keys, tls, &bound));
    let url = url(args, &bound);
    // Without a file there is nothing to read again, and the signal ends the process as usual.
    if args.access.api_key_file.is_some() {
        let app = app.clone();
        signals::on_hangup(move || source.reload(&app))?;
    }
    // Requests during loading are answered with an error that says so.
    let serving = tokio::spawn(wf_server::serve(bound, app.clone(), signals::listen()?));
    let (path, options) = (model_path(args).map(Path::to_owned), run_options(args));
    let draft = args.decoding.draft.clone();
    let load = move || open::model(path.as_deref(), draft.as_deref(), &options);
    let model = spawn_blocking(load).await??;
    if args.limits.mlock {
        lock_memory()?;
    }
    let greeting = greeting(&model, args, &url);
    app.set_model(served(args, model)?);
    output::stream(&greeting)?;
    Ok(serving.await?)
}

/// Suggests a free port near one that is taken.
fn suggest_port(address: SocketAddr) -> String {
    let ports = (1..=100).filter_map(|more| address.port().checked_add(more));
    let mut free = ports.filter(|&port| TcpListener::bind((address.ip(), port)).is_ok());
    match free.next() {
        Some(port) => format!("use --port {port}, which is free, or --port 0 for any free port"),
        None => "use --port 0 for any free port".to_owned(),
    }
}

fn options(args: &ServeArgs, keys: Keys, tls: Option<Tls>, bound: &Listener) -> ServerOptions {
    let limits = &args.limits;
    ServerOptions {
        keys,
        hosts: Hosts {
            bound: bound.address(),
            names: args.access.allow_host.clone(),
            origins: args.access.allow_origin.clone(),
        },
        limits: Limits {
            body_len: limits.max_body,
            deadline: Duration::from_secs(limits.deadline),
            ..Limits::default()
        },
        drain: Duration::from_secs(limits.drain.into()),
        metrics: !args.log.no_metrics,
        page: !args.listen.no_page,
        tls,
    }
}

fn run_options(args: &ServeArgs) -> RunOptions {
    let kv_memory = args.limits.kv_memory.map(KvCapacity::Bytes);
    RunOptions {
        kv_capacity: kv_memory.unwrap_or_else(memory::kv_capacity),
        max_running: args.limits.max_running,
        max_waiting: args.limits.max_waiting,
        digest: true,
        ..args.engine.options()
    }
}

fn model_path(args: &ServeArgs) -> Option<&Path> {
    args.model.as_deref().or(args.model_flag.as_deref())
}

fn served(args: &ServeArgs, model: OpenedModel) -> Result<ServedModel> {
    Ok(ServedModel {
        names: names(args, &model),
        path: model_path(args).map_or(demo::NAME.into(), |path| path.display().to_string()),
        architecture: model.info.architecture.clone(),
        digest: model.digest.unwrap_or_default(),
        isa: model.isa.to_string(),
        threads: model.threads,
        kv: args.engine.compute.kv.to_string(),
        max_running: args.limits.max_running,
        defaults: defaults(&args.defaults, model.generation_defaults),
        decode: args.decoding.mode(&model.frontend)?,
        frontend: model.frontend,
    })
}

/// Returns the names of the model in requests: the configured ones, or that of the model or its file.
fn names(args: &ServeArgs, model: &OpenedModel) -> Vec<String> {
    match &args.served_model_name[..] {
        [] => vec![open::name(model, model_path(args)).unwrap_or_else(|| "model".to_owned())],
        names => names.to_vec(),
    }
}

/// Returns the default parameters: those of flags, else of the model, else of the OpenAI API.
fn defaults(args: &DefaultsArgs, model: GenerationDefaults) -> SamplingParams {
    let float = |value: Option<f64>| value.map(|value| value as f32);
    let model = SamplingOverrides {
        temperature: float(model.temperature),
        top_k: model.top_k.map(|k| k as i64),
        top_p: float(model.top_p),
        min_p: float(model.min_p),
        repetition_penalty: float(model.repetition_penalty),
        ..SamplingOverrides::default()
    };
    default_sampling().with(&args.params.clone().or(&model))
}

fn url(args: &ServeArgs, bound: &Listener) -> String {
    match (bound.address(), &args.listen.socket) {
        (Some(address), _) => format!("{}://{address}", scheme(args)),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => String::new(),
    }
}

fn scheme(args: &ServeArgs) -> &'static str {
    if args.listen.tls_cert.is_some() { "https" } else { "http" }
}

fn greeting(model: &OpenedModel, args: &ServeArgs, server: &str) -> String {
    let engine = model.frontend.engine();
    let is_open = args.access.api_key.is_empty() && args.access.api_key_file.is_none();
    let key = if is_open { "" } else { " \\\n       -H \"authorization: Bearer $KEY\"" };
    let (curl, url) = match server.strip_prefix("unix:") {
        Some(path) => {
            (format!("curl --unix-socket {path}"), format!("{}://localhost", scheme(args)))
        }
        None => ("curl".to_owned(), server.to_owned()),
    };
    // A browser cannot open a Unix socket.
    let has_page = !args.listen.no_page && args.listen.socket.is_none();
    let chat = if has_page { format!("  chat {url}/\n") } else { String::new() };
    format!(
        "{name} on {server}\n  {isa} on {threads} · context {context} tokens · K/V cache in \
         {kv}, {kv_tokens} tokens\n\n  try  {curl} {url}/v1/chat/completions{key} \\\n       -H \
         'content-type: application/json' \\\n       -d '{{\"messages\": [{{\"role\": \"user\", \
         \"content\": \"Tell me a story\"}}], \"max_tokens\": 60}}'\n{chat}  read {url}/docs\n",
        name = names(args, model).join(", "),
        isa = model.isa,
        threads = output::count(model.threads, "thread"),
        context = engine.context_len(),
        kv = args.engine.compute.kv,
        kv_tokens = engine.kv_tokens(),
    )
}

fn tls(args: &ListenArgs) -> Result<Option<Tls>> {
    let requires = |one, other| Err(UsageError::new(format!("{one} requires {other}")).into());
    match (&args.tls_cert, &args.tls_key) {
        (None, None) => Ok(None),
        (Some(_), None) => requires("--tls-cert", "--tls-key"),
        (None, Some(_)) => requires("--tls-key", "--tls-cert"),
        (Some(certificate), Some(key)) => {
            Tls::from_files(certificate, key).map(Some).context("--tls-cert, --tls-key")
        }
    }
}

fn start_log(args: &LogArgs, traces: Option<&Traces>) -> Result<()> {
    let filter = EnvFilter::try_new(&args.log).with_context(|| {
        format!("--log is {:?}: must be a level such as info, or a filter", args.log)
    })?;
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let log = match args.log_format {
        LogFormat::Text => log.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => log.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let layers: Vec<_> = [log].into_iter().chain(traces.map(Traces::layer)).collect();
    tracing_subscriber::registry().with(layers).init();
    panics::log();
    Ok(())
}

#[cfg(target_os = "linux")]
fn lock_memory() -> Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .context("--mlock: not permitted: raise ulimit -l")
}

#[cfg(not(target_os = "linux"))]
fn lock_memory() -> Result<()> {
    anyhow::bail!("--mlock is not supported on this system")
}
