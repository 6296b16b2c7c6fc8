//! The last hour of the server: `/history`.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::observe::history::{PERIOD, Sample};

/// The last hour.
#[derive(Serialize, ToSchema)]
pub(super) struct LastHour {
    /// Seconds between two samples.
    period_seconds: u64,
    /// Oldest first.
    samples: Vec<Sample>,
}

pub(super) async fn history(app: App) -> Result<LastHour, ApiError> {
    if !app.options.metrics {
        let message = "metrics are disabled on this server";
        return Err(ApiError::status(StatusCode::NOT_FOUND, "not_found", message));
    }
    Ok(LastHour { period_seconds: PERIOD.as_secs(), samples: app.history.samples() })
}
