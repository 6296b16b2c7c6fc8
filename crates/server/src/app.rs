//! What all requests share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use wf_engine::{DecodeMode, Frontend};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::options::{SamplingDefaults, ServerOptions};

/// A model that is ready, and what is told of it.
pub struct ServedModel {
    /// Takes prompts, gives text.
    pub frontend: Frontend,
    /// What requests call it; the first is told.
    pub names: Vec<String>,
    /// The file or directory it came from.
    pub path: String,
    /// What kind of network it is.
    pub architecture: String,
    /// What its exact bytes are called.
    pub digest: String,
    /// The instruction set in use.
    pub isa: String,
    /// Threads at work.
    pub threads: usize,
    /// How keys and values are kept.
    pub kv: String,
    /// Requests that run at once.
    pub max_running: usize,
    /// How tokens are drawn where a request does not say.
    pub defaults: SamplingDefaults,
    /// How they are found where it does not.
    pub decode: DecodeMode,
}

impl ServedModel {
    /// What requests call it.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("default", String::as_str)
    }

    /// Equal fingerprints, equal requests: equal answers.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = self.digest.get(..12).unwrap_or(&self.digest);
        format!("wf-n{}-{}-{digest}", wf_engine::NUMERICS, self.kv)
    }

    /// Refuses the name of another model. Gateways that do not know a name send one that says so.
    pub(crate) fn check_name(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            None | Some("" | "default" | "unknown") => Ok(()),
            Some(name) if self.names.iter().any(|ours| ours == name) => Ok(()),
            Some(_) => {
                let names = self.names.join(", ");
                Err(ApiError::no_such_model(format!("no such model: this server has {names}")))
            }
        }
    }
}

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// See [`App`].
pub struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Metrics,
    pub(crate) in_flight: InFlight,
    /// When the server started, in seconds since 1970.
    pub(crate) created: u64,
    model: OnceLock<ServedModel>,
    draining: AtomicBool,
    /// True once replies must end, finished or not.
    stop: watch::Sender<bool>,
    salts: RandomState,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// A server without a model yet.
    pub fn new(options: ServerOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            metrics: Metrics::new(),
            in_flight: InFlight::default(),
            created: now(),
            model: OnceLock::new(),
            draining: AtomicBool::new(false),
            stop: watch::Sender::new(false),
            salts: RandomState::new(),
        }))
    }

    /// Lets requests in. A second model is not taken.
    pub fn set_model(&self, model: ServedModel) {
        self.metrics.watch(model.frontend.engine().clone());
        // Whoever comes second has lost a race that nobody runs.
        let _ = self.model.set(model);
    }
}

impl Shared {
    /// The model, once it is loaded.
    pub(crate) fn model(&self) -> Result<&ServedModel, ApiError> {
        let loading = || ApiError::unavailable("loading", "the model is being loaded");
        self.model.get().ok_or_else(loading)
    }

    /// The model, for a request that makes it work: not while the server is stopping.
    pub(crate) fn model_for_work(&self) -> Result<&ServedModel, ApiError> {
        if self.is_draining() {
            return Err(ApiError::stopping());
        }
        self.model()
    }

    /// Takes no new work from now on.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Ends all replies.
    pub(crate) fn stop_replies(&self) {
        self.stop.send_replace(true);
    }

    /// Tells when replies must end.
    pub(crate) fn stop_signal(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// What separates the caches of callers, and of what they want separated. Keyed anew in every
    /// process, so nobody can aim at another's.
    pub(crate) fn salt(&self, caller: Caller, cache_salt: Option<&str>) -> u64 {
        self.salts.hash_one((caller, cache_salt))
    }
}

/// Waits until a switch is on.
pub(crate) async fn is_on(switch: &mut watch::Receiver<bool>) {
    // If nobody can turn it any more, the process is ending.
    let _ = switch.wait_for(|on| *on).await;
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
