//! The caller of a route that shows more to operators.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::query::query_value;
use crate::access::Caller;
use crate::app::App;
use crate::error::ApiError;
use crate::models::Profile;

/// The server, as one caller may see it.
pub(crate) struct Viewer {
    pub(crate) app: App,
    caller: Option<Caller>,
    /// Name of a model, in the query.
    model: Option<String>,
}

impl Viewer {
    /// Returns `true` if the caller may see what is for operators.
    pub(crate) fn is_admin(&self) -> bool {
        self.app.is_admin(self.caller.as_ref())
    }

    /// Returns the caller, who is known on all routes that need a key.
    pub(crate) fn caller(&self) -> Result<&Caller, ApiError> {
        self.caller.as_ref().ok_or_else(ApiError::unauthorized)
    }

    /// Lists the names of the models that the caller may use, one of each.
    pub(crate) fn model_names(&self) -> Result<Vec<String>, ApiError> {
        let (models, caller) = (self.app.models()?, self.caller()?);
        let name = |at| models.listing(at).name().to_owned();
        Ok(models.open_to(caller).into_iter().map(name).collect())
    }

    /// Returns what is known of the model that the query names, or else of the caller's first model. It is loaded
    /// if it never was.
    pub(crate) async fn profile(&self) -> Result<Arc<Profile>, ApiError> {
        let (models, caller) = (self.app.models()?, self.caller()?);
        let at = models.find(caller, self.model.as_deref())?;
        let profile = models.profile(at).await;
        profile.map_err(|reason| {
            let reason = self.is_admin().then_some(reason);
            ApiError::load_failed(models.listing(at).name(), reason)
        })
    }

    /// Rejects callers without a key for operators.
    pub(crate) fn require_admin(&self) -> Result<(), ApiError> {
        if self.is_admin() { Ok(()) } else { Err(ApiError::admin_only()) }
    }

    /// Returns the number that stands for the caller.
    pub(crate) fn caller_id(&self) -> Option<u64> {
        self.caller.as_ref().map(|caller| self.app.caller_id(caller))
    }

    /// Returns what an operator may see, or the public text in its place.
    pub(crate) fn reveal(&self, own: &str, public: &str) -> String {
        if self.is_admin() { own.to_owned() } else { public.to_owned() }
    }
}

impl FromRequestParts<App> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let model = parts.uri.query().and_then(|query| query_value(query, "model"));
        Ok(Self { app: app.clone(), caller, model })
    }
}
