//! `/v1/batches`.

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use uuid::Uuid;
use wf_api::wire::{Batch, BatchList, BatchRequest, BatchStatus, RequestCounts};

use super::files::{Id, PURPOSE, check_lifetime, id};
use super::owned::{Owned, Page};
use crate::app::now;
use crate::batch::ENDPOINTS;
use crate::error::ApiError;
use crate::generation::FieldRules;
use crate::generation::unknown_fields::UnknownFields;
use crate::http::body::{Received, RequestBody, read_json};
use crate::http::raw_fields::FieldUse;
use crate::store::BatchRecord;

const FIELDS: FieldRules = FieldRules { ignored: "", unsupported: &[], constraints: &[] };

/// Maximum number of labels, and of the bytes of each.
const MAX_LABELS: usize = 16;
const MAX_LABEL_LEN: usize = 512;
/// Longest completion window in seconds: a week.
const MAX_WINDOW: u64 = 7 * 24 * 3600;

impl RequestBody for BatchRequest {
    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

pub(super) async fn create(
    own: Owned,
    request: Request<Body>,
) -> Result<(HeaderMap, Json<Batch>), ApiError> {
    own.app.check_draining()?;
    let Received { body, .. } = read_json::<BatchRequest>(request, &own.app).await?;
    let unknown_fields = UnknownFields::new(own.app.options.limits.unknown_fields);
    FIELDS.check(&body.extra, &unknown_fields)?;
    let mut headers = HeaderMap::new();
    unknown_fields.report(&mut headers);
    let record = record(&own, body)?;
    let batch = own.blocking(move |store, owner| store.create(owner, record)).await?;
    Ok((headers, Json(batch)))
}

fn record(own: &Owned, request: BatchRequest) -> Result<BatchRecord, ApiError> {
    let required = |field: Option<String>, name| field.ok_or_else(|| ApiError::required(name));
    let input_file_id = required(request.input_file_id, "input_file_id")?;
    let created_at = now();
    let input = own.store.file(&own.owner, &input_file_id, created_at);
    let input = input.map_err(|_| ApiError::at("input_file_id", "there is no such file"))?;
    if input.purpose != PURPOSE {
        let message = format!("its purpose is {}: must be {PURPOSE}", input.purpose);
        return Err(ApiError::at("input_file_id", &message));
    }
    let endpoint = required(request.endpoint, "endpoint")?;
    if !ENDPOINTS.contains(&endpoint.as_str()) {
        let message = format!("must be one of {}", ENDPOINTS.join(", "));
        return Err(ApiError::at("endpoint", &message));
    }
    let completion_window = required(request.completion_window, "completion_window")?;
    let window = parse_window(&completion_window).ok_or_else(|| {
        let message = "must be a whole number and s, m, h or d, at most seven days, such as 24h";
        ApiError::at("completion_window", message)
    })?;
    if let Some(labels) = &request.metadata {
        let is_long = |text: &String| text.len() > MAX_LABEL_LEN;
        if labels.len() > MAX_LABELS
            || labels.iter().any(|(key, text)| is_long(key) || is_long(text))
        {
            let message =
                format!("must have at most {MAX_LABELS} entries of {MAX_LABEL_LEN} bytes");
            return Err(ApiError::at("metadata", &message));
        }
    }
    let lifetime = request.output_expires_after.map(|after| check_lifetime(after.seconds));
    let batch = Batch {
        id: format!("batch_{}", Uuid::new_v4().simple()),
        object: "batch".into(),
        endpoint,
        errors: None,
        input_file_id,
        completion_window,
        status: BatchStatus::Validating,
        output_file_id: None,
        error_file_id: None,
        created_at,
        in_progress_at: None,
        expires_at: created_at + window,
        finalizing_at: None,
        completed_at: None,
        failed_at: None,
        expired_at: None,
        cancelling_at: None,
        cancelled_at: None,
        request_counts: RequestCounts::default(),
        metadata: request.metadata,
    };
    Ok(BatchRecord { batch, output_lifetime: lifetime.transpose()? })
}

/// Returns the seconds of a time such as `24h`.
fn parse_window(text: &str) -> Option<u64> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return None,
    };
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    number.checked_mul(unit).filter(|seconds| (1..=MAX_WINDOW).contains(seconds))
}

pub(super) async fn list(own: Owned) -> Result<Json<BatchList>, ApiError> {
    let Page { items, first_id, last_id, has_more } =
        own.page(own.store.batches(&own.owner), |batch| &batch.id)?;
    Ok(Json(BatchList { object: "list".into(), data: items, first_id, last_id, has_more }))
}

pub(super) async fn retrieve(own: Owned, batch: Id) -> Result<Json<Batch>, ApiError> {
    Ok(Json(own.store.batch(&own.owner, &id(batch)?)?))
}

pub(super) async fn cancel(own: Owned, batch: Id) -> Result<Json<Batch>, ApiError> {
    let id = id(batch)?;
    own.blocking(move |store, owner| store.cancel(owner, &id, now())).await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_unit_and_a_limit() {
        for (text, seconds) in [
            ("24h", Some(86_400)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("7d", Some(604_800)),
            ("8d", None),
            ("0h", None),
            ("h", None),
            ("", None),
            ("-1h", None),
            ("24", None),
            ("18446744073709551615d", None),
            ("1é", None),
        ] {
            assert_eq!(parse_window(text), seconds, "{text}");
        }
    }
}
