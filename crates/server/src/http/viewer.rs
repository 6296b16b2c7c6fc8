//! The caller of a route that shows more to operators.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::access::Caller;
use crate::app::App;
use crate::error::ApiError;

/// The server, as one caller may see it.
pub(crate) struct Viewer {
    pub(crate) app: App,
    caller: Option<Caller>,
}

impl Viewer {
    /// Returns `true` if the caller has a key for operators, or if a server without any keys is used from its own
    /// machine.
    pub(crate) fn is_admin(&self) -> bool {
        let bound = self.app.options.hosts.bound;
        let is_local = || bound.is_none_or(|address| address.ip().is_loopback());
        match self.caller.as_ref().and_then(Caller::key) {
            Some(key) => key.is_admin,
            None => self.app.keys().is_empty() && is_local(),
        }
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
        Ok(Self { app: app.clone(), caller: parts.extensions.get::<Caller>().cloned() })
    }
}
