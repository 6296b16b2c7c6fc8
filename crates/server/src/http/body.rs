//! Parses JSON bodies. Errors name the field at fault.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::options::Limits;

/// Bytes that have to arrive within each read timeout.
const MIN_PROGRESS: usize = 1024;

/// Reads a JSON body, within the limits on size, time and depth.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request<Body>,
    limits: &Limits,
) -> Result<T, ApiError> {
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let bytes = read(body, &head.headers, limits).await?;
    parse(&bytes, limits.json_depth)
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let wrong = |message| {
        ApiError::status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(wrong(
            "request body must be JSON, with the header `content-type: application/json`",
        ));
    }
    let encoding = headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.as_bytes());
    match encoding {
        None | Some(b"identity") => Ok(()),
        Some(_) => Err(wrong("request body must not be compressed")),
    }
}

async fn read(mut body: Body, headers: &HeaderMap, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    let max = limits.body_len;
    let too_large = || {
        let message = format!("request body is larger than the limit of {max} bytes");
        ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &message)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok());
    if announced.and_then(|len| len.parse::<u64>().ok()).is_some_and(|len| len > max as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let enough = bytes.len() + MIN_PROGRESS;
        let progress = async {
            while bytes.len() < enough {
                let Some(frame) = body.frame().await else { return Ok(true) };
                let cut = |_| ApiError::invalid("request body ended before it was complete");
                if let Ok(data) = frame.map_err(cut)?.into_data() {
                    if bytes.len() + data.len() > max {
                        return Err(too_large());
                    }
                    bytes.extend_from_slice(&data);
                }
            }
            Ok(false)
        };
        match timeout(limits.read_timeout, progress).await {
            Ok(Ok(true)) => return Ok(bytes),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let message = "request body arrived too slowly";
                let status = StatusCode::REQUEST_TIMEOUT;
                return Err(ApiError::status(status, "body_too_slow", message));
            }
        }
    }
}

/// Parses a JSON object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, ApiError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(format!("request body is not valid JSON: {error}")))?;
    if depth(&value) > max_depth {
        let message = format!("JSON is nested deeper than the limit of {max_depth} levels");
        return Err(ApiError::invalid(message));
    }
    let Value::Object(fields) = value else {
        return Err(ApiError::invalid("request body must be a JSON object"));
    };
    let all = serde_path_to_error::deserialize(Value::Object(fields.clone()));
    all.map_err(|error| find_field::<T>(fields, error))
}

/// Finds the field at fault. Serde loses the names of flattened fields, so each field is parsed alone.
fn find_field<T: DeserializeOwned>(
    fields: Map<String, Value>,
    error: serde_path_to_error::Error<serde_json::Error>,
) -> ApiError {
    for (name, value) in fields {
        let alone = Value::Object(Map::from_iter([(name.clone(), value)]));
        if let Err(error) = serde_path_to_error::deserialize::<_, T>(alone) {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            // The other fields are missing because this one is parsed alone.
            if message.starts_with("missing field") && !path.starts_with(&name) {
                continue;
            }
            let param = if path.starts_with(&name) { path } else { name };
            return ApiError::field(param.clone(), format!("{param}: {message}"));
        }
    }
    ApiError::invalid(error.into_inner().to_string())
}

/// Returns the nesting depth of arrays and objects. Serde's own limit protects the stack.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use wf_api::wire::{ChatRequest, CompletionRequest, DetokenizeRequest};

    use super::*;

    fn fault<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> (Option<String>, String) {
        let error = parse::<T>(json.as_bytes(), 64).unwrap_err();
        (error.param, error.message)
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let param = |json| fault::<ChatRequest>(json).0;
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(param(r#"{"temperature": "hot", "n": 1}"#), named("temperature"));
        assert_eq!(param(r#"{"n": -1}"#), named("n"));
        assert_eq!(param(r#"{"n": 1.5}"#), named("n"));
        assert_eq!(param(r#"{"messages": [{"role": 7}]}"#), named("messages[0].role"));
        assert_eq!(param(r#"{"messages": 7}"#), named("messages"));
        assert_eq!(param(r#"{"stop": 7}"#), named("stop"));
        assert_eq!(param(r#"{"stream_options": {"include_usage": 1}}"#).unwrap(), "stream_options");
        assert_eq!(fault::<CompletionRequest>(r#"{"prompt": {}}"#).0, named("prompt"));
        assert_eq!(fault::<CompletionRequest>(r#"{"prompt": [1, "a"]}"#).0, named("prompt"));
        assert_eq!(fault::<DetokenizeRequest>(r#"{"tokens": [-1]}"#).0, named("tokens[0]"));
        assert_eq!(fault::<DetokenizeRequest>(r#"{"model": 7, "tokens": []}"#).0, named("model"));
        assert!(
            fault::<DetokenizeRequest>(r#"{"x": 7, "tokens": []}"#).1.contains("unknown field")
        );
        assert!(fault::<DetokenizeRequest>("{}").1.contains("tokens"));
    }

    #[test]
    fn other_json_values_are_rejected() {
        for json in ["", "{", "[]", "7", "null", "{\"n\": 1e400}", "{} x", "\u{feff}{}", "{'a':1}"]
        {
            assert_eq!(fault::<ChatRequest>(json).0, None, "{json}");
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested =
            |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(parse::<ChatRequest>(nested(64).as_bytes(), 64).is_ok());
        assert!(parse::<ChatRequest>(nested(65).as_bytes(), 64).is_err());
        assert!(parse::<ChatRequest>("[".repeat(100_000).as_bytes(), 64).is_err());
        let nested = serde_json::from_str(r#"{"a":"[[[\"[[","b":["]"]}"#).unwrap();
        assert_eq!(depth(&nested), 2);
    }
}
