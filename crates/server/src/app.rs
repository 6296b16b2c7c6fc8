//! State that all requests share: models, options, metrics, and shutdown.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use wf_engine::{Origin, StatsSnapshot};

use crate::access::{Caller, Keys};
use crate::bodies::Bodies;
use crate::error::ApiError;
use crate::models::{ListedModel, Registry, ServedModel};
use crate::observe::history::History;
use crate::observe::in_flight::InFlight;
use crate::observe::metrics::Metrics;
use crate::options::ServerOptions;

/// State that all requests share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// See [`App`].
pub struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Metrics,
    pub(crate) history: History,
    pub(crate) in_flight: InFlight,
    pub(crate) bodies: Arc<Bodies>,
    /// Start of the server, in seconds since 1970.
    pub(crate) created: u64,
    keys: RwLock<Keys>,
    models: OnceLock<Arc<Registry>>,
    draining: AtomicBool,
    /// True once sequences must end, finished or not.
    stop: watch::Sender<bool>,
    caller_ids: RandomState,
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
            metrics: Metrics::new(&options.metrics_prefix),
            options,
            history: History::default(),
            in_flight: InFlight::default(),
            created: now(),
            models: OnceLock::new(),
            draining: AtomicBool::new(false),
            stop: watch::Sender::new(false),
            caller_ids: RandomState::new(),
            requests: AtomicU64::new(0),
        }))
    }

    /// Sets the only model, and begins to accept requests. A second call has no effect.
    pub fn set_model(&self, model: ServedModel) {
        self.set_registry(Registry::of_one(model));
    }

    /// Sets the models, of which `first` is loaded and first in the list, and begins to accept requests. The others
    /// are loaded on demand: models in memory have at most `max_memory` bytes together. A second call has no effect.
    pub fn set_models(
        &self,
        first: ServedModel,
        models: Vec<ListedModel>,
        max_memory: Option<usize>,
    ) {
        self.set_registry(Registry::new(first, models, max_memory));
    }

    fn set_registry(&self, registry: Registry) {
        let registry = self.models.get_or_init(|| Arc::new(registry));
        self.metrics.watch(registry);
        self.check_key_models();
    }

    /// Returns the counters of each model's engine; none while the first model is loading.
    pub fn engine_stats(&self) -> Vec<StatsSnapshot> {
        let stats = self.models.get().map(|models| models.stats()).unwrap_or_default();
        stats.into_iter().map(|model| model.engine).collect()
    }

    /// Warns of keys that list models which do not exist: a key for nothing else finds none.
    fn check_key_models(&self) {
        let Some(models) = self.models.get() else { return };
        for (key, model) in self.keys().listed_models().filter(|(_, name)| !models.has(name)) {
            tracing::warn!(key, model, "the API key lists a model that this server does not have");
        }
    }

    /// Replaces the API keys. Those that stay keep what they have used of their limits.
    pub fn set_keys(&self, keys: &Keys) {
        let mut current = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *current = current.replaced_by(keys);
        drop(current);
        self.check_key_models();
    }
}

impl Shared {
    /// Returns the models, once the first is loaded.
    pub(crate) fn models(&self) -> Result<&Arc<Registry>, ApiError> {
        let loading = || ApiError::unavailable("loading", "the model is still loading");
        self.models.get().ok_or_else(loading)
    }

    /// Adds a sample to the history, once there is a model.
    pub(crate) fn sample(&self) {
        if let Some(models) = self.models.get() {
            self.history.add(&self.metrics, &models.total_stats());
        }
    }

    /// Returns `true` if a caller has a key for operators, or if a server without any keys is used from its own
    /// machine. A proxy there has callers from elsewhere.
    pub(crate) fn is_admin(&self, caller: Option<&Caller>) -> bool {
        let bound = self.options.hosts.bound;
        let is_local = || bound.is_none_or(|address| address.ip().is_loopback());
        let is_direct = || caller.is_some_and(|one| !one.peer().is_forwarded());
        match caller.and_then(Caller::key) {
            Some(key) => key.is_admin,
            None => self.keys().is_empty() && is_local() && is_direct(),
        }
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

    /// Returns the salt that separates the prefix caches of callers.
    pub(crate) fn salt(&self, caller: &Caller, cache_salt: Option<&str>) -> u64 {
        self.options.salt_key.salt(caller.digest(), cache_salt)
    }

    /// Returns a number that stands for a caller in this process.
    pub(crate) fn caller_id(&self, caller: &Caller) -> u64 {
        self.caller_ids.hash_one((caller.key().is_some(), caller.name()))
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
