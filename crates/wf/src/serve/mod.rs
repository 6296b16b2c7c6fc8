//! `wf serve`: the OpenAI API on an address of this machine.

pub(crate) mod args;
pub(crate) mod config;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod signals;

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use wf_engine::{KvRoom, OpenedModel, RunOptions};
use wf_formats::GenerationDefaults;
use wf_server::{
    App, Bound, Hosts, Keys, Limits, SamplingDefaults, ServedModel, ServerOptions, Tls,
};

use crate::report::UsageError;
use crate::serve::args::{AccessArgs, DefaultsArgs, ListenArgs, LogArgs, LogFormat, ServeArgs};
use crate::serve::otlp::Traces;
use crate::{demo, memory, open, report};

/// Threads for connections. Computing has its own.
const IO_THREADS: usize = 2;
/// Threads for templates and tokenizing, which take a while for long prompts.
const TEXT_THREADS: usize = 4;
/// Full contexts that keys and values have room for, unless told otherwise.
const CONTEXTS: usize = 4;

/// Runs the command.
pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    wf_kernels::share_memory_places();
    let keys = keys(&args.access)?;
    let tls = tls(&args.listen)?;
    let is_open = args.listen.socket.is_none() && !args.listen.host.is_loopback();
    ensure!(
        !is_open || !keys.is_empty() || args.access.no_key,
        "{} can be reached from other machines, and there is no key: give one with --api-key-file, \
         or let everybody in with --no-key",
        args.listen.host
    );
    let runtime = Builder::new_multi_thread()
        .worker_threads(IO_THREADS)
        .max_blocking_threads(TEXT_THREADS + 1)
        .thread_name("wf-io")
        .enable_all()
        .build()
        .context("starting threads")?;
    let traces = args.log.otlp.as_deref().map(|url| Traces::start(url, runtime.handle()));
    let traces = traces.transpose()?;
    start_log(&args.log, traces.as_ref())?;
    let served = runtime.block_on(run(args, keys, tls));
    // The runtime's threads are still there to move the bytes.
    if let Some(Err(error)) = traces.map(|traces| traces.finish()) {
        report::note(&format!("warning: {}", report::explain(&error)));
    }
    served
}

async fn run(args: &ServeArgs, keys: Keys, tls: Option<Tls>) -> Result<()> {
    let address = SocketAddr::new(args.listen.host, args.listen.port);
    let bound = wf_server::bind(address, args.listen.socket.clone()).await;
    let bound = bound.map_err(|error| match &args.listen.socket {
        Some(path) => anyhow!("listening on {}: {error}", path.display()),
        None => anyhow!("listening on {address}: {error}: {}", another_port(address)),
    })?;
    let app = App::new(options(args, keys, tls, &bound));
    let place = place(args, &bound);
    // Who asks while the model is being loaded is told so.
    let serving = tokio::spawn(wf_server::serve(bound, app.clone(), signals::listen()?));
    let (path, options) = (model_path(args).map(Path::to_owned), run_options(args));
    let draft = args.decoding.draft.clone();
    let load = move || open::model(path.as_deref(), draft.as_deref(), &options);
    let model = spawn_blocking(load).await??;
    if args.load.mlock {
        lock_memory()?;
    }
    let greeting = greeting(&model, args, &place);
    app.set_model(served(args, model)?);
    report::stream(&greeting)?;
    Ok(serving.await?)
}

/// A port near one that cannot be had, and that can.
fn another_port(address: SocketAddr) -> String {
    let ports = (1..=100).filter_map(|more| address.port().checked_add(more));
    let mut free = ports.filter(|&port| TcpListener::bind((address.ip(), port)).is_ok());
    match free.next() {
        Some(port) => format!("use --port {port}, which is free, or --port 0 for any that is"),
        None => "use --port 0 for any port that is free".to_owned(),
    }
}

fn options(args: &ServeArgs, keys: Keys, tls: Option<Tls>, bound: &Bound) -> ServerOptions {
    let load = &args.load;
    ServerOptions {
        keys,
        hosts: Hosts {
            bound: bound.address(),
            names: args.access.allow_host.clone(),
            origins: args.access.allow_origin.clone(),
        },
        limits: Limits {
            body_bytes: load.max_body,
            deadline: Duration::from_secs(load.deadline as u64),
            ..Limits::default()
        },
        drain: Duration::from_secs(load.drain.into()),
        metrics: !args.log.no_metrics,
        page: !args.listen.no_page,
        tls,
    }
}

fn run_options(args: &ServeArgs) -> RunOptions {
    let kv_room = match args.load.kv_memory {
        Some(bytes) => KvRoom::Bytes(bytes),
        None => KvRoom::Contexts { count: CONTEXTS, at_most: memory::free().map(|free| free / 2) },
    };
    RunOptions {
        head: args.head.head,
        sparse: args.head.sparse,
        kv_room,
        max_running: args.load.max_running,
        max_waiting: args.load.max_waiting,
        digest: true,
        ..args.compute.options(&args.file)
    }
}

fn model_path(args: &ServeArgs) -> Option<&Path> {
    args.model.as_deref().or(args.model_flag.as_deref())
}

fn served(args: &ServeArgs, model: OpenedModel) -> Result<ServedModel> {
    Ok(ServedModel {
        names: names(args, &model),
        path: model_path(args).map_or(demo::NAME.into(), |path| path.display().to_string()),
        architecture: model.config.architecture.clone(),
        digest: model.digest.unwrap_or_default(),
        isa: model.isa.to_string(),
        threads: model.threads,
        kv: args.compute.kv.to_string(),
        max_running: args.load.max_running,
        defaults: defaults(&args.defaults, model.generation_defaults),
        decode: args.decoding.mode(&model.frontend)?,
        frontend: model.frontend,
    })
}

/// What requests call the model: what they were told to, or its own name, or its file's.
fn names(args: &ServeArgs, model: &OpenedModel) -> Vec<String> {
    if !args.served_model_name.is_empty() {
        return args.served_model_name.clone();
    }
    let of_file = || Some(model_path(args)?.file_stem()?.to_string_lossy().into_owned());
    let own = model.config.name.clone().filter(|name| !name.trim().is_empty());
    vec![own.or_else(of_file).unwrap_or_else(|| "model".to_owned())]
}

/// A flag, or what the model's makers say, or what OpenAI's API does.
fn defaults(args: &DefaultsArgs, model: GenerationDefaults) -> SamplingDefaults {
    let api = SamplingDefaults::default();
    let pick = |flag: Option<f32>, model: Option<f64>, api: f32| {
        flag.or(model.map(|value| value as f32)).unwrap_or(api)
    };
    SamplingDefaults {
        temperature: pick(args.temperature, model.temperature, api.temperature),
        top_k: args.top_k.or(model.top_k).unwrap_or(api.top_k),
        top_p: pick(args.top_p, model.top_p, api.top_p),
        min_p: pick(args.min_p, model.min_p, api.min_p),
        repetition_penalty: pick(
            args.repetition_penalty,
            model.repetition_penalty,
            api.repetition_penalty,
        ),
    }
}

/// Where the server is, as one would type it.
fn place(args: &ServeArgs, bound: &Bound) -> String {
    match (bound.address(), &args.listen.socket) {
        (Some(address), _) => format!("{}://{address}", scheme(args)),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => String::new(),
    }
}

fn scheme(args: &ServeArgs) -> &'static str {
    if args.listen.tls_cert.is_some() { "https" } else { "http" }
}

fn greeting(model: &OpenedModel, args: &ServeArgs, place: &str) -> String {
    let engine = model.frontend.engine();
    let key = if args.access.api_key.is_empty() && args.access.api_key_file.is_none() {
        ""
    } else {
        " \\\n       -H \"authorization: Bearer $KEY\""
    };
    let (curl, url) = match place.strip_prefix("unix:") {
        Some(path) => {
            (format!("curl --unix-socket {path}"), format!("{}://localhost", scheme(args)))
        }
        None => ("curl".to_owned(), place.to_owned()),
    };
    // A browser cannot open a socket in the file system.
    let has_page = !args.listen.no_page && args.listen.socket.is_none();
    let chat = if has_page { format!("  chat {url}/\n") } else { String::new() };
    format!(
        "{name} on {place}\n  {isa} on {threads} · context {context} tokens · keys and values in \
         {kv}, room for {room}\n\n  try  {curl} {url}/v1/chat/completions{key} \\\n       -H \
         'content-type: application/json' \\\n       -d '{{\"messages\": [{{\"role\": \"user\", \
         \"content\": \"Tell me a story\"}}], \"max_tokens\": 60}}'\n{chat}  read {url}/docs\n",
        name = names(args, model).join(", "),
        isa = model.isa,
        threads = report::count(model.threads, "thread"),
        context = engine.context_len(),
        kv = args.compute.kv,
        room = engine.kv_tokens(),
    )
}

/// What encrypts connections, if they are to be.
fn tls(args: &ListenArgs) -> Result<Option<Tls>> {
    let needs = |one: &str, other: &str| UsageError::new(format!("{one} needs {other}"));
    match (&args.tls_cert, &args.tls_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let tls = Tls::from_files(certificate, key);
            Ok(Some(tls.context("--tls-cert, --tls-key")?))
        }
        (Some(_), None) => Err(needs("--tls-cert", "--tls-key, the certificate's key").into()),
        (None, Some(_)) => Err(needs("--tls-key", "--tls-cert, the key's certificate").into()),
    }
}

/// The keys of the flag, of the variable and of the file.
fn keys(args: &AccessArgs) -> Result<Keys> {
    let file = match &args.api_key_file {
        None => String::new(),
        Some(path) => open::read_text_file(path).context("--api-key-file")?,
    };
    let of_file = file.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let all = args.api_key.iter().map(|key| key.trim()).chain(of_file);
    let all: Vec<_> = all.filter(|key| !key.is_empty()).collect();
    ensure!(
        !all.is_empty() || (args.api_key.is_empty() && args.api_key_file.is_none()),
        "no key in what was given with --api-key or --api-key-file: empty keys open nothing"
    );
    Ok(Keys::new(all))
}

fn start_log(args: &LogArgs, traces: Option<&Traces>) -> Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("--log is {:?}: use a level such as info", args.log))?;
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let log = match args.log_format {
        LogFormat::Text => log.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => log.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let layers: Vec<_> = [log].into_iter().chain(traces.map(Traces::layer)).collect();
    tracing_subscriber::registry().with(layers).init();
    Ok(())
}

#[cfg(target_os = "linux")]
fn lock_memory() -> Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .context("--mlock: the system does not allow it; raise `ulimit -l`")
}

#[cfg(not(target_os = "linux"))]
fn lock_memory() -> Result<()> {
    anyhow::bail!("--mlock is not known on this system")
}
