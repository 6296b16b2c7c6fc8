//! A request on its way to its model: arrived, addressed to a model, and with the model in memory.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use tokio::time::timeout;
use wf_engine::{Origin, Timings};

use super::unknown_fields::UnknownFields;
use crate::access::{Background, Caller, Key, Permit};
use crate::app::App;
use crate::error::ApiError;
use crate::http::request_id;
use crate::models::{Lease, Profile};
use crate::observe::in_flight::InFlightGuard;
use crate::observe::log::RequestLog;

/// Tier of requests in the background: below any that a key may set.
const BACKGROUND_TIER: i32 = i32::MIN;
/// Time limit of a request in the background, which may wait behind all others. Its batch expires earlier.
const BACKGROUND_DEADLINE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A request that has arrived, before the model it needs is there.
pub(crate) struct Arrival {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    /// Place among the requests of its key, until the last copy is dropped.
    permit: Option<Arc<Permit>>,
    log: Option<RequestLog>,
    /// Shares of the machine are divided between origins.
    origin: Origin,
    is_background: bool,
    pub(crate) request_id: String,
    pub(crate) unknown_fields: Arc<UnknownFields>,
}

impl Arrival {
    /// Rejects the request while the first model is loading.
    pub(crate) fn new(app: &App, request: &Request<Body>) -> Result<Self, ApiError> {
        app.models()?;
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.ok_or_else(ApiError::unauthorized)?;
        let limited = |refusal| ApiError::limited(&caller.name(), &refusal);
        let permit = caller.begin().map_err(limited)?.map(Arc::new);
        let log = request.extensions().get::<RequestLog>().cloned();
        let request_id = request_id::of(request.extensions());
        let origin = app.origin(&caller);
        let unknown_fields = Arc::new(UnknownFields::new(app.options.limits.unknown_fields));
        let is_background = request.extensions().get::<Background>().is_some();
        let app = app.clone();
        Ok(Self { app, caller, permit, log, origin, is_background, request_id, unknown_fields })
    }

    /// Finds the model with a name, if the caller may use it. It need not be loaded.
    pub(crate) fn for_model(self, name: Option<&str>) -> Result<Addressed, ApiError> {
        let at = self.app.models()?.find(&self.caller, name)?;
        Ok(Addressed { arrival: self, at })
    }

    /// Returns the log line of the request.
    pub(crate) fn log(&self) -> Option<RequestLog> {
        self.log.clone()
    }
}

/// A request whose model is known, but not necessarily in memory.
pub(crate) struct Addressed {
    arrival: Arrival,
    /// Index of the model.
    at: usize,
}

impl Deref for Addressed {
    type Target = Arrival;

    fn deref(&self) -> &Arrival {
        &self.arrival
    }
}

impl Addressed {
    /// Returns the name of the model.
    pub(crate) fn model_name(&self) -> Result<&str, ApiError> {
        Ok(self.app.models()?.listing(self.at).name())
    }

    /// Waits until the model is loaded, for at most the time of a request.
    pub(crate) async fn lease(&self) -> Result<Lease, ApiError> {
        let lease = self.app.models()?.lease(self.at);
        self.in_time(lease).await
    }

    /// Returns what is known of the model, which is loaded if it never was.
    pub(crate) async fn profile(&self) -> Result<Arc<Profile>, ApiError> {
        let profile = self.app.models()?.profile(self.at);
        self.in_time(profile).await
    }

    async fn in_time<T>(
        &self,
        loading: impl Future<Output = Result<T, String>>,
    ) -> Result<T, ApiError> {
        let name = self.model_name()?;
        let loaded = timeout(self.app.options.limits.deadline, loading).await;
        let loaded = loaded.map_err(|_| ApiError::load_timeout(name))?;
        loaded.map_err(|reason| {
            let reason = self.app.is_admin(Some(&self.caller)).then_some(reason);
            ApiError::load_failed(name, reason)
        })
    }

    /// Returns the request with its model, which has to be in memory.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn with_loaded_model(self) -> Result<Context, ApiError> {
        let lease = self.app.models()?.try_lease(self.at).ok_or_else(ApiError::internal)?;
        Ok(self.with_lease(lease))
    }

    /// Returns the request with its model.
    pub(crate) fn with_lease(self, model: Lease) -> Context {
        Context { model, arrival: self.arrival }
    }
}

/// A request with the model it needs, and the server it arrived at.
pub(crate) struct Context {
    pub(crate) model: Lease,
    arrival: Arrival,
}

impl Deref for Context {
    type Target = Arrival;

    fn deref(&self) -> &Arrival {
        &self.arrival
    }
}

impl Context {
    /// Returns the origin of a sequence of this request. A priority counts among all callers if the key may set it.
    pub(crate) fn origin(&self, priority: i32) -> Origin {
        let tier = match self.caller.key() {
            _ if self.arrival.is_background => BACKGROUND_TIER,
            Some(key) if key.may_prioritize => priority,
            _ => 0,
        };
        Origin { tier, ..self.arrival.origin }
    }

    /// Returns the time when the request ends, finished or not.
    pub(crate) fn deadline(&self) -> Instant {
        let limit = self.app.options.limits.deadline;
        let is_background = self.arrival.is_background;
        Instant::now() + if is_background { limit.max(BACKGROUND_DEADLINE) } else { limit }
    }

    /// Adds a sequence to the list of those in flight.
    pub(crate) fn enter(&self, prompt_tokens: usize) -> InFlightGuard {
        let (id, caller) = (&self.request_id, self.arrival.origin.caller);
        self.app.in_flight.enter(id, caller, self.model.name(), prompt_tokens)
    }

    /// Returns the number of tokens that the key may have in the KV cache, if it is limited.
    pub(crate) fn max_kv_tokens(&self) -> Option<usize> {
        let share = self.caller.key()?.limits.kv_share?;
        Some((self.model.kv_tokens as f64 * share) as usize)
    }

    /// Returns the maximum number of tokens of prompt and completion.
    pub(crate) fn max_len(&self) -> usize {
        self.model.frontend.engine().max_len_within(self.max_kv_tokens())
    }

    /// Returns the counters of what this request uses.
    pub(crate) fn meter(&self) -> Meter {
        let key = self.caller.key().map(|key: &Key| key.name.clone());
        let (permit, log) = (self.permit.clone(), self.log.clone());
        // With one model, its counters are those of the server.
        let is_one_of_several = self.app.models().is_ok_and(|models| models.len() > 1);
        let model = is_one_of_several.then(|| self.model.name().to_owned());
        Meter { app: self.app.clone(), key, model, permit, log }
    }
}

/// Counts the tokens of a request, in total and for its key. The request ends with its last meter.
#[derive(Clone)]
pub(crate) struct Meter {
    app: App,
    key: Option<String>,
    /// Name of the model, if there are several.
    model: Option<String>,
    permit: Option<Arc<Permit>>,
    log: Option<RequestLog>,
}

impl Meter {
    /// Counts a prompt with `choices` completions.
    pub(crate) fn count_prompt(&self, tokens: usize, choices: usize) {
        self.app.metrics.count_prompt(tokens, choices);
        self.log.iter().for_each(|log| log.count_prompt(tokens));
        self.spend(tokens, 0);
    }

    pub(crate) fn count_token(&self, since_arrival: Duration, since_last: Option<Duration>) {
        self.app.metrics.count_token(since_arrival, since_last);
        self.log.iter().for_each(|log| log.count_token(since_arrival));
        self.spend(0, 1);
    }

    /// Counts the end of a sequence.
    pub(crate) fn count_end(&self, finish_reason: &'static str, timings: Option<&Timings>) {
        self.app.metrics.count_end(finish_reason, timings);
        if let (Some(log), Some(timings)) = (&self.log, timings) {
            log.note_queue(timings.queued);
        }
    }

    /// Notes the error that ended a response after its head.
    pub(crate) fn note_error(&self, error: &ApiError) {
        self.log.iter().for_each(|log| log.set_error(error.code));
    }

    fn spend(&self, prompt: usize, completion: usize) {
        if let Some(permit) = &self.permit {
            permit.spend_tokens(prompt + completion);
        }
        if let Some(key) = &self.key {
            self.app.metrics.count_key_tokens(key, prompt, completion);
        }
        if let Some(model) = &self.model {
            self.app.metrics.count_model_tokens(model, prompt, completion);
        }
    }
}
