//! State that all requests share: the model, options, metrics, and shutdown.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use wf_core::{SamplingParams, TokenId};
use wf_engine::{DecodeMode, Frontend, Origin};

use crate::access::{Caller, Keys};
use crate::bodies::Bodies;
use crate::error::ApiError;
use crate::observe::in_flight::InFlight;
use crate::observe::metrics::Metrics;
use crate::options::ServerOptions;

/// A loaded model, and its description.
pub struct ServedModel {
    /// The engine with its tokenizer and chat template.
    pub frontend: Frontend,
    /// Names that requests may use; responses have the first.
    pub names: Vec<String>,
    /// File or directory it was loaded from.
    pub path: String,
    /// Architecture of the network.
    pub architecture: String,
    /// Digest of its weights.
    pub digest: String,
    /// Instruction set in use.
    pub isa: String,
    /// Number of worker threads.
    pub threads: usize,
    /// Data type of the KV cache.
    pub kv: String,
    /// Maximum number of sequences that run at once.
    pub max_running: usize,
    /// Sampling parameters of requests that do not set them.
    pub defaults: SamplingParams,
    /// Decoding mode of requests that do not set it.
    pub decode: DecodeMode,
}

impl ServedModel {
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("default", String::as_str)
    }

    /// Returns the fingerprint: equal requests with equal fingerprints get equal responses.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = self.digest.get(..12).unwrap_or(&self.digest);
        format!("wf-n{}-{}-{digest}", wf_engine::NUMERICS, self.kv)
    }

    /// Runs `work` on a thread where it may take long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Frontend) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let frontend = self.frontend.clone();
        spawn_blocking(move || work(&frontend)).await.map_err(|_| ApiError::internal())
    }

    /// Rejects token ids that are not in the vocabulary.
    pub(crate) fn check_tokens(&self, field: &str, tokens: &[TokenId]) -> Result<(), ApiError> {
        let vocab_len = self.frontend.engine().vocab_len();
        match tokens.iter().find(|&&token| token as usize >= vocab_len) {
            None => Ok(()),
            Some(token) => {
                let what =
                    format!("{token} is not a token id: must be between 0 and {}", vocab_len - 1);
                Err(ApiError::at(field, &what))
            }
        }
    }

    /// Rejects the name of another model. Gateways send `default` or `unknown` for any model.
    pub(crate) fn check_name(&self, name: Option<&str>) -> Result<(), ApiError> {
        match name {
            None | Some("" | "default" | "unknown") => Ok(()),
            Some(name) if self.names.iter().any(|ours| ours == name) => Ok(()),
            Some(_) => {
                let names = self.names.join(", ");
                Err(ApiError::no_such_model(format!("model not found: this server has {names}")))
            }
        }
    }
}

/// State that all requests share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// See [`App`].
pub struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Metrics,
    pub(crate) in_flight: InFlight,
    pub(crate) bodies: Arc<Bodies>,
    /// Start of the server, in seconds since 1970.
    pub(crate) created: u64,
    keys: RwLock<Keys>,
    model: OnceLock<Arc<ServedModel>>,
    draining: AtomicBool,
    /// True once sequences must end, finished or not.
    stop: watch::Sender<bool>,
    salts: RandomState,
    requests: AtomicU64,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// Creates a server that has no model yet.
    pub fn new(options: ServerOptions) -> Self {
        Self(Arc::new(Shared {
            bodies: Arc::new(Bodies::new(options.limits.bodies_len)),
            keys: RwLock::new(options.keys.clone()),
            options,
            metrics: Metrics::new(),
            in_flight: InFlight::default(),
            created: now(),
            model: OnceLock::new(),
            draining: AtomicBool::new(false),
            stop: watch::Sender::new(false),
            salts: RandomState::new(),
            requests: AtomicU64::new(0),
        }))
    }

    /// Sets the model, and begins to accept requests. A second call has no effect.
    pub fn set_model(&self, model: ServedModel) {
        self.metrics.watch(model.frontend.engine().clone());
        let _ = self.model.set(Arc::new(model));
    }

    /// Replaces the API keys. Those that stay keep what they have used of their limits.
    pub fn set_keys(&self, keys: &Keys) {
        let mut current = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *current = current.replaced_by(keys);
    }
}

impl Shared {
    pub(crate) fn model(&self) -> Result<&Arc<ServedModel>, ApiError> {
        let loading = || ApiError::unavailable("loading", "the model is still loading");
        self.model.get().ok_or_else(loading)
    }

    pub(crate) fn keys(&self) -> Keys {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rejects requests that compute while the server is shutting down.
    pub(crate) fn check_draining(&self) -> Result<(), ApiError> {
        if self.draining.load(Ordering::Relaxed) { Err(ApiError::stopping()) } else { Ok(()) }
    }

    /// Rejects new work from now on.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn cancel_sequences(&self) {
        self.stop.send_replace(true);
    }

    /// Returns a signal that turns true when sequences must end.
    pub(crate) fn stop_signal(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Returns the salt that separates the prefix caches of callers. It is keyed anew in every process, so
    /// that no caller can aim at another's cache.
    pub(crate) fn salt(&self, caller: &Caller, cache_salt: Option<&str>) -> u64 {
        self.salts.hash_one((caller.digest(), cache_salt))
    }

    /// Returns a number that stands for a caller in this process.
    pub(crate) fn caller_id(&self, caller: &Caller) -> u64 {
        self.salts.hash_one((caller.key().is_some(), caller.name()))
    }

    /// Returns the origin of a new request: its caller, and a number of its own.
    pub(crate) fn origin(&self, caller: &Caller) -> Origin {
        Origin {
            caller: self.caller_id(caller),
            request: self.requests.fetch_add(1, Ordering::Relaxed),
            tier: 0,
        }
    }
}

pub(crate) async fn is_on(switch: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: the process is ending.
    let _ = switch.wait_for(|on| *on).await;
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
