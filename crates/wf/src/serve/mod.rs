//! `wf serve`: serves an OpenAI-compatible API.

mod activation;
pub(crate) mod args;
pub(crate) mod config;
mod keys;
pub(crate) mod model;
mod models;
mod names;
#[cfg(all(test, feature = "otlp"))]
#[expect(dead_code, reason = "compiled for its test only")]
mod no_otlp;
mod notify;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
mod otlp;
mod panics;
mod signals;

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use wf_core::AttentionMode;
use wf_engine::DiskCacheOptions;
use wf_server::{App, Hosts, Keys, Limits, Listener, SaltKey, ServerOptions, Tls};

use crate::output::{self, UsageError};
use crate::serve::activation::Inherited;
use crate::serve::args::{ListenArgs, LogArgs, LogFormat, ServeArgs};
use crate::serve::keys::KeySource;
use crate::serve::models::Loaded;
use crate::serve::notify::Notifier;
use crate::serve::otlp::Traces;

/// Number of threads for connections. The engine has its own.
const IO_THREADS: usize = 2;
/// Maximum number of threads for templates and tokenizing.
const TEXT_THREADS: usize = 4;

pub(crate) fn serve(args: ServeArgs) -> Result<()> {
    let args = &Arc::new(args);
    wf_kernels::limit_malloc_arenas();
    let inherited = Inherited::take()?;
    let is_public = match &inherited {
        Some(socket) => socket.is_public(),
        None => args.listen.socket.is_none() && !args.listen.host.is_loopback(),
    };
    let source = KeySource::new(&args.access, is_public && !args.access.no_key);
    let keys = source.read()?;
    let (tls, files) = (tls(&args.listen)?, args.files.open()?);
    let salt_key = salt_key(args)?;
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
    let notifier = Arc::new(Notifier::from_env());
    let served = runtime.block_on(async {
        let bound = listen(&args.listen, inherited).await?;
        let app = App::new(ServerOptions { files, salt_key, ..options(args, keys, tls, &bound) });
        run(args, bound, app, source, notifier).await
    });
    // A model that is still loading is not waited for.
    runtime.shutdown_background();
    if let Some(Err(error)) = traces.map(|traces| traces.finish()) {
        output::note(&format!("warning: {}", output::explain(&error)));
    }
    served
}

/// Returns the socket of systemd if there is one, or else binds that of the options.
async fn listen(args: &ListenArgs, inherited: Option<Inherited>) -> Result<Listener> {
    if let Some(socket) = inherited {
        return socket.into_listener().context("LISTEN_FDS");
    }
    let address = SocketAddr::new(args.host, args.port);
    let bound = wf_server::bind(address, args.socket.clone()).await;
    bound.map_err(|error| match &args.socket {
        Some(path) => anyhow!("listening on {}: {error}", path.display()),
        None => anyhow!("listening on {address}: {error}: {}", suggest_port(address)),
    })
}

async fn run(
    args: &Arc<ServeArgs>,
    bound: Listener,
    app: App,
    source: KeySource,
    notifier: Arc<Notifier>,
) -> Result<()> {
    let url = url(args, &bound);
    // Without a file there is nothing to read again, and the signal ends the process as usual.
    if args.access.api_key_file.is_some() {
        let app = app.clone();
        signals::on_hangup(move || source.reload(&app))?;
    }
    // Requests during loading are answered with an error that says so.
    notifier.status("loading the model");
    let stopping = Arc::clone(&notifier);
    let stop = signals::listen(move || stopping.stopping())?;
    let mut serving = tokio::spawn(wf_server::serve(bound, app.clone(), stop));
    tokio::select! {
        loaded = load(args, &app, &url) => match loaded {
            Ok(status) => {
                notifier.ready(&status);
                tokio::spawn(async move { notifier.keep_alive(&app).await });
            }
            Err(error) => {
                // Dropped rather than drained: no request was accepted, and the error is the only message.
                serving.abort();
                let _ = serving.await;
                return Err(error);
            }
        },
        // A signal ended it before the model was there.
        served = &mut serving => return Ok(served?),
    }
    Ok(serving.await?)
}

/// Loads the first model and announces the server. Returns a line that describes it.
async fn load(args: &Arc<ServeArgs>, app: &App, url: &str) -> Result<String> {
    let (arguments, server) = (Arc::clone(args), app.clone());
    let loaded = spawn_blocking(move || models::load(&arguments, &server)).await??;
    if args.limits.mlock {
        lock_memory()?;
    }
    let greeting = greeting(&loaded, args, url);
    let status = greeting.lines().next().unwrap_or_default().to_owned();
    output::stream(&greeting)?;
    Ok(status)
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
        proxies: args.access.trusted_proxy.clone(),
        limits: Limits {
            body_len: limits.max_body,
            deadline: Duration::from_secs(limits.deadline),
            unknown_fields: limits.unknown_fields.into(),
            ..Limits::default()
        },
        drain: Duration::from_secs(limits.drain.into()),
        metrics: !args.log.no_metrics,
        metrics_prefix: args.log.metrics_prefix.clone(),
        page: !args.listen.no_page,
        mcp_servers: args.listen.mcp_server.clone(),
        files: None,
        salt_key: SaltKey::default(),
        tls,
    }
}

/// Returns the secret of the prefix caches of callers, which is kept beside the pages on disk.
fn salt_key(args: &ServeArgs) -> Result<SaltKey> {
    let Some(cache) = disk_cache(args) else { return Ok(SaltKey::default()) };
    let read = || {
        cache.create_dir()?;
        SaltKey::from_file(&cache.dir.join("salt-key"))
    };
    read().with_context(|| format!("--cache-dir {}", cache.dir.display()))
}

/// Returns the options of the prefix cache on disk, whose faults are logged.
fn disk_cache(args: &ServeArgs) -> Option<DiskCacheOptions> {
    args.disk_cache.options(|fault| tracing::warn!("{fault}"))
}

fn url(args: &ServeArgs, bound: &Listener) -> String {
    match bound.address() {
        Some(address) => format!("{}://{address}", scheme(args)),
        None => format!("unix:{}", bound.path().unwrap_or_default().display()),
    }
}

fn scheme(args: &ServeArgs) -> &'static str {
    if args.listen.tls_cert.is_some() { "https" } else { "http" }
}

/// Describes the mode of attention, if it is not the usual one.
fn attention(mode: AttentionMode) -> String {
    match mode {
        AttentionMode::Dense => String::new(),
        AttentionMode::Window(_) => {
            format!(" · attention {mode}, chats of up to {} tokens", AttentionMode::MAX_LEN)
        }
        mode => format!(" · attention {mode}"),
    }
}

fn greeting(loaded: &Loaded, args: &ServeArgs, server: &str) -> String {
    let is_open = args.access.api_key.is_empty() && args.access.api_key_file.is_none();
    let key = if is_open { "" } else { " \\\n       -H \"authorization: Bearer $KEY\"" };
    let (curl, url) = match server.strip_prefix("unix:") {
        Some(path) => {
            (format!("curl --unix-socket {path}"), format!("{}://localhost", scheme(args)))
        }
        None => ("curl".to_owned(), server.to_owned()),
    };
    // A browser cannot open a Unix socket.
    let has_page = !args.listen.no_page && !server.starts_with("unix:");
    let chat = if has_page { format!("  chat {url}/\n") } else { String::new() };
    let on_demand = match loaded.on_demand {
        0 => String::new(),
        count => format!("  {} more on demand\n", output::count(count, "model")),
    };
    format!(
        "{name} on {server}\n  {isa} on {threads} · context {context} tokens · K/V cache in \
         {kv}, {kv_tokens} tokens{attention}\n{on_demand}\n  try  {curl} {url}/v1/chat/completions{key} \\\n       -H \
         'content-type: application/json' \\\n       -d '{{\"messages\": [{{\"role\": \"user\", \
         \"content\": \"Tell me a story\"}}], \"max_tokens\": 60}}'\n{chat}  read {url}/docs\n",
        name = loaded.names.join(", "),
        isa = loaded.isa,
        threads = output::count(loaded.threads, "thread"),
        context = loaded.context_len,
        kv = args.engine.compute.kv,
        kv_tokens = loaded.kv_tokens,
        attention = attention(args.engine.compute.attention),
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
