//! Files and batches as one caller sees them: its own.

use std::io;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use tokio::task::spawn_blocking;

use crate::access::Caller;
use crate::app::App;
use crate::error::ApiError;
use crate::store::{FileStore, Owner, StoreError};

/// Number of entries of a list by default, and at most.
const DEFAULT_PAGE: usize = 20;
const MAX_PAGE: usize = 10_000;

/// The store, the caller, and the query of a request.
pub(super) struct Owned {
    pub(super) app: App,
    pub(super) store: FileStore,
    pub(super) owner: Owner,
    query: String,
}

impl FromRequestParts<App> for Owned {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let off = "files and batches are off: start the server with --files-dir DIR";
        let off = || ApiError::status(StatusCode::NOT_FOUND, "files_off", off);
        let store = app.options.files.clone().ok_or_else(off)?;
        let caller = parts.extensions.get::<Caller>().ok_or_else(ApiError::unauthorized)?;
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(Self { app: app.clone(), store, owner: Owner::of(caller), query })
    }
}

impl Owned {
    /// Runs work that waits for the disk.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FileStore, &Owner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (store, owner) = (self.store.clone(), self.owner.clone());
        let done = spawn_blocking(move || work(&store, &owner)).await;
        Ok(done.map_err(|_| ApiError::internal())??)
    }

    /// Returns a parameter of the query. Ids and numbers have no characters that are escaped.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the part of a list that the query asks for.
    pub(super) fn page<T>(
        &self,
        mut items: Vec<T>,
        id: impl Fn(&T) -> &str,
    ) -> Result<Page<T>, ApiError> {
        let limit = match self.param("limit").map(str::parse::<usize>) {
            None => DEFAULT_PAGE,
            Some(Ok(limit)) if (1..=MAX_PAGE).contains(&limit) => limit,
            Some(_) => {
                return Err(ApiError::at("limit", &format!("must be between 1 and {MAX_PAGE}")));
            }
        };
        match self.param("order") {
            None | Some("desc") => {}
            Some("asc") => items.reverse(),
            Some(_) => return Err(ApiError::at("order", "must be asc or desc")),
        }
        if let Some(after) = self.param("after") {
            let at = items.iter().position(|item| id(item) == after);
            let at = at.ok_or_else(|| ApiError::at("after", "is not in the list"))?;
            items.drain(..=at);
        }
        let has_more = items.len() > limit;
        items.truncate(limit);
        let end = |item: Option<&T>| item.map(|item| id(item).to_owned());
        let (first_id, last_id) = (end(items.first()), end(items.last()));
        Ok(Page { items, first_id, last_id, has_more })
    }
}

/// A part of a list.
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) first_id: Option<String>,
    pub(super) last_id: Option<String>,
    pub(super) has_more: bool,
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound => Self::status(StatusCode::NOT_FOUND, "not_found", &message),
            StoreError::InUse { .. } => Self::status(StatusCode::CONFLICT, "file_in_use", &message),
            StoreError::TooMany { .. } => {
                Self::status(StatusCode::CONFLICT, "limit_reached", &message)
            }
            StoreError::TooLarge { .. } => {
                Self::status(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", &message)
            }
            StoreError::Full { .. } => {
                Self::status(StatusCode::INSUFFICIENT_STORAGE, "storage_full", &message)
            }
            StoreError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::from(StoreError::NotFound)
            }
            StoreError::Io(error) => {
                tracing::error!(%error, "storing a file failed");
                Self::internal()
            }
        }
    }
}
