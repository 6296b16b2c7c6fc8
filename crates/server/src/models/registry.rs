//! The registry: hands out leases, loads models on demand and evicts idle ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use wf_engine::StatsSnapshot;

use super::lease::Lease;
use super::listing::{Listing, find};
use super::room::{Resident, Step, next_step};
use super::served::{Profile, ServedModel};
use crate::access::Caller;
use crate::error::ApiError;

/// Loads a model. The error is a sentence for the operator.
pub type LoadModel = Box<dyn Fn() -> Result<ServedModel, String> + Send + Sync>;

/// A model that a server may load.
pub struct ListedModel {
    /// Facts that are known before it is loaded.
    pub listing: Listing,
    /// Memory that it needs, in bytes; an estimate.
    pub memory_bytes: usize,
    /// Loads it.
    pub load: LoadModel,
}

/// All models of a server.
pub(crate) struct Registry {
    models: Vec<ListedModel>,
    first: Arc<Profile>,
    max_memory: Option<usize>,
    states: Mutex<States>,
    /// Held by the load that is under way. Others wait for their turn, in order.
    turn: tokio::sync::Mutex<()>,
    /// Notified when a lease ends.
    released: Arc<Notify>,
}

struct States {
    of_models: Vec<State>,
    /// Number of leases so far: the clock of `last_use`.
    leases: u64,
}

#[derive(Default)]
struct State {
    model: Option<Arc<ServedModel>>,
    /// Known since it was first loaded.
    profile: Option<Arc<Profile>>,
    last_use: u64,
    /// True if it takes no new requests, because it is to leave.
    is_leaving: bool,
    /// The load that requests wait for.
    load: Option<Load>,
    /// Counters of engines that have left.
    retired: StatsSnapshot,
    loads: u64,
    evictions: u64,
}

/// The outcome of a load, once there is one. It holds a lease until all who wait have theirs.
type Load = watch::Receiver<Option<Result<Lease, String>>>;

/// Counters of a model, with those of its engines that have left.
pub(crate) struct ModelStats {
    pub(crate) name: String,
    pub(crate) is_loaded: bool,
    pub(crate) loads: u64,
    pub(crate) evictions: u64,
    pub(crate) engine: StatsSnapshot,
}

impl Registry {
    /// Creates a registry of which `first` is loaded: the model at index 0.
    pub(crate) fn new(
        first: ServedModel,
        models: Vec<ListedModel>,
        max_memory: Option<usize>,
    ) -> Self {
        let profile = Arc::clone(&first.profile);
        let mut of_models: Vec<State> = models.iter().map(|_| State::default()).collect();
        if let Some(state) = of_models.first_mut() {
            state.insert(Arc::new(first));
        }
        Self {
            models,
            first: profile,
            max_memory,
            states: Mutex::new(States { of_models, leases: 0 }),
            turn: tokio::sync::Mutex::default(),
            released: Arc::default(),
        }
    }

    /// Creates a registry of one model that never leaves.
    pub(crate) fn of_one(model: ServedModel) -> Self {
        let listing = model.listing.clone();
        let load: LoadModel = Box::new(|| Err("the model has left memory".to_owned()));
        let listed = ListedModel { listing, memory_bytes: model.memory_bytes, load };
        Self::new(model, vec![listed], None)
    }

    fn states(&self) -> MutexGuard<'_, States> {
        // No operation on the states can panic halfway.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.models.len()
    }

    /// Returns the index of the model that a caller means.
    pub(crate) fn find(&self, caller: &Caller, name: Option<&str>) -> Result<usize, ApiError> {
        let listings: Vec<_> = self.models.iter().map(|model| &model.listing).collect();
        find(&listings, caller, name)
    }

    /// True if a model has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.models.iter().any(|model| model.listing.is_called(name))
    }

    /// Lists the indices of the models that a caller may use.
    pub(crate) fn open_to(&self, caller: &Caller) -> Vec<usize> {
        (0..self.len()).filter(|&at| self.models[at].listing.is_open_to(caller)).collect()
    }

    /// Returns what is known of the first model.
    pub(crate) fn first_profile(&self) -> &Profile {
        &self.first
    }

    pub(crate) fn listing(&self, at: usize) -> &Listing {
        &self.models[at].listing
    }

    pub(crate) fn is_loaded(&self, at: usize) -> bool {
        self.states().of_models[at].model.is_some()
    }

    /// Returns what is known of a model, unless it has never been loaded.
    pub(crate) fn known_profile(&self, at: usize) -> Option<Arc<Profile>> {
        self.states().of_models[at].profile.clone()
    }

    /// Returns what is known of a model, which is loaded if it never was.
    pub(crate) async fn profile(self: &Arc<Self>, at: usize) -> Result<Arc<Profile>, String> {
        match self.known_profile(at) {
            Some(profile) => Ok(profile),
            None => Ok(Arc::clone(&self.lease(at).await?.profile)),
        }
    }

    /// Evicts the prefix caches of all models in memory.
    pub(crate) fn flush_caches(&self) {
        let states = self.states();
        let loaded = states.of_models.iter().filter_map(|state| state.model.as_ref());
        loaded.for_each(|model| model.frontend.engine().flush_cache());
    }

    /// Returns the counters of all models.
    pub(crate) fn stats(&self) -> Vec<ModelStats> {
        let states = self.states();
        let stats = states.of_models.iter().zip(&self.models).map(|(state, listed)| ModelStats {
            name: listed.listing.name().to_owned(),
            is_loaded: state.model.is_some(),
            loads: state.loads,
            evictions: state.evictions,
            engine: state.engine_stats(),
        });
        stats.collect()
    }

    /// Returns the counters of all engines together.
    pub(crate) fn total_stats(&self) -> StatsSnapshot {
        let states = self.states();
        let of_models = states.of_models.iter().map(State::engine_stats);
        of_models.fold(StatsSnapshot::default(), |sum, one| sum.plus(&one))
    }

    /// Begins to use a model, if it is in memory and not about to leave.
    pub(crate) fn try_lease(&self, at: usize) -> Option<Lease> {
        let mut states = self.states();
        states.leases += 1;
        let now = states.leases;
        let state = &mut states.of_models[at];
        let model = state.model.as_ref().filter(|_| !state.is_leaving)?;
        state.last_use = now;
        Some(Lease::new(model, &self.released))
    }

    /// Begins to use a model, which is loaded first if it is not in memory.
    ///
    /// # Errors
    ///
    /// If it cannot be loaded. The next call tries again.
    pub(crate) async fn lease(self: &Arc<Self>, at: usize) -> Result<Lease, String> {
        if let Some(lease) = self.try_lease(at) {
            return Ok(lease);
        }
        let mut load = self.join_load(at);
        let outcome = load.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| Err("the server is stopping".to_owned()))
    }

    /// Returns the load that is under way, or starts one.
    fn join_load(self: &Arc<Self>, at: usize) -> Load {
        let mut states = self.states();
        let load = states.of_models[at].load.get_or_insert_with(|| {
            let (sender, receiver) = watch::channel(None);
            let registry = Arc::clone(self);
            // A task of its own: it goes on if the request that started it is cancelled.
            tokio::spawn(async move {
                let outcome = registry.load(at).await;
                registry.states().of_models[at].load = None;
                sender.send_replace(Some(outcome));
            });
            receiver
        });
        load.clone()
    }

    async fn load(self: &Arc<Self>, at: usize) -> Result<Lease, String> {
        let _turn = self.turn.lock().await;
        self.make_room(at).await;
        let name = self.models[at].listing.name();
        // It stayed, because a load before this one failed.
        if let Some(lease) = self.try_lease(at) {
            return Ok(lease);
        }
        tracing::info!(model = name, "loading");
        let registry = Arc::clone(self);
        let loaded = spawn_blocking(move || (registry.models[at].load)()).await;
        let loaded = loaded.unwrap_or_else(|_| Err("loading it panicked".to_owned()));
        let model = Arc::new(loaded.inspect_err(|error| {
            tracing::error!(model = name, error, "loading failed");
        })?);
        let lease = Lease::new(&model, &self.released);
        self.states().of_models[at].insert(model);
        Ok(lease)
    }

    /// Evicts idle models, and waits for others to become idle, until a model fits.
    async fn make_room(&self, at: usize) {
        loop {
            // Created before the look at the models, so that no end of a lease is missed.
            let released = self.released.notified();
            match self.choose(at) {
                Step::Load => break,
                Step::Evict(victim) => self.evict(victim).await,
                Step::AwaitIdle(_) => released.await,
            }
        }
        self.states().of_models.iter_mut().for_each(|state| state.is_leaving = false);
    }

    fn choose(&self, at: usize) -> Step {
        let mut states = self.states();
        if states.of_models[at].model.is_some() {
            return Step::Load;
        }
        let residents = states.of_models.iter().enumerate().filter_map(|(at, state)| {
            let model = state.model.as_ref()?;
            Some(Resident {
                at,
                memory_bytes: model.memory_bytes,
                // Leases are handed out under the lock that is held here.
                is_idle: Arc::strong_count(model) == 1,
                last_use: state.last_use,
            })
        });
        let residents: Vec<_> = residents.collect();
        let known = states.of_models[at].profile.as_ref().map(|profile| profile.memory_bytes);
        let needed = known.unwrap_or(self.models[at].memory_bytes);
        let step = next_step(&residents, needed, self.max_memory);
        match step {
            Step::Load => {}
            // Taken out of reach under the same lock, so that no request gets it.
            Step::Evict(victim) | Step::AwaitIdle(victim) => {
                states.of_models[victim].is_leaving = true;
            }
        }
        step
    }

    /// Frees the memory of a model that nobody uses.
    async fn evict(&self, at: usize) {
        let Some(model) = self.states().of_models[at].remove() else { return };
        tracing::info!(model = model.name(), "unloading");
        let Some(model) = Arc::into_inner(model) else { return };
        // Its memory is free once its engine has ended.
        let _ = spawn_blocking(move || model.frontend.close()).await;
    }
}

impl State {
    fn insert(&mut self, model: Arc<ServedModel>) {
        self.profile = Some(Arc::clone(&model.profile));
        self.loads += 1;
        self.is_leaving = false;
        self.model = Some(model);
    }

    fn remove(&mut self) -> Option<Arc<ServedModel>> {
        let model = self.model.take()?;
        self.retired = self.retired.plus_counts_of(&model.frontend.engine().stats());
        self.evictions += 1;
        Some(model)
    }

    fn engine_stats(&self) -> StatsSnapshot {
        match &self.model {
            None => StatsSnapshot::default().plus_counts_of(&self.retired),
            Some(model) => model.frontend.engine().stats().plus_counts_of(&self.retired),
        }
    }
}
