//! A body becomes a request, or an error that names the field at fault.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::options::Limits;

/// How many bytes must arrive in the time given for arrivals.
const LEAST_PROGRESS: usize = 1024;

/// Reads a JSON body.
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
            "the body must be JSON: send the header `content-type: application/json`",
        ));
    }
    let encoding = headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.as_bytes());
    match encoding {
        None | Some(b"identity") => Ok(()),
        Some(_) => Err(wrong("the body must not be compressed")),
    }
}

async fn read(mut body: Body, headers: &HeaderMap, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    let most = limits.body_bytes;
    let too_large = || {
        let message = format!("the body has more than {most} bytes, which are allowed");
        ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &message)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok());
    if announced.and_then(|len| len.parse::<u64>().ok()).is_some_and(|len| len > most as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let enough = bytes.len() + LEAST_PROGRESS;
        let progress = async {
            while bytes.len() < enough {
                let Some(frame) = body.frame().await else { return Ok(true) };
                let cut = |_| ApiError::invalid("the body ended before it was complete");
                if let Ok(data) = frame.map_err(cut)?.into_data() {
                    if bytes.len() + data.len() > most {
                        return Err(too_large());
                    }
                    bytes.extend_from_slice(&data);
                }
            }
            Ok(false)
        };
        match timeout(limits.arrival, progress).await {
            Ok(Ok(true)) => return Ok(bytes),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let message = "the body arrived too slowly";
                let status = StatusCode::REQUEST_TIMEOUT;
                return Err(ApiError::status(status, "body_too_slow", message));
            }
        }
    }
}

/// JSON becomes a request.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], most_depth: usize) -> Result<T, ApiError> {
    if depth(bytes) > most_depth {
        let message = format!("the JSON is nested deeper than {most_depth}, which is allowed");
        return Err(ApiError::invalid(message));
    }
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(format!("the body is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(ApiError::invalid("the body must be a JSON object"));
    };
    let all = serde_path_to_error::deserialize(Value::Object(fields.clone()));
    all.map_err(|error| blame::<T>(fields, error))
}

/// Names the field that is wrong. Flattened parts of a request lose their names on the way, so each
/// field is tried alone.
fn blame<T: DeserializeOwned>(
    fields: Map<String, Value>,
    whole: serde_path_to_error::Error<serde_json::Error>,
) -> ApiError {
    for (name, value) in fields {
        let alone = Value::Object(Map::from_iter([(name.clone(), value)]));
        if let Err(error) = serde_path_to_error::deserialize::<_, T>(alone) {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            // Others being absent is no fault of this one.
            if message.starts_with("missing field") && !path.starts_with(&name) {
                continue;
            }
            let param = if path.starts_with(&name) { path } else { name };
            return ApiError::field(param.clone(), format!("{param}: {message}"));
        }
    }
    ApiError::invalid(whole.into_inner().to_string())
}

/// How deep arrays and objects are nested, also in what is no JSON.
fn depth(bytes: &[u8]) -> usize {
    let (mut now, mut deepest) = (0usize, 0);
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use wf_client::wire::{ChatRequest, CompletionRequest, DetokenizeRequest};

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
    fn what_is_no_json_object_is_refused() {
        for json in ["", "{", "[]", "7", "null", "{\"n\": 1e400}", "{} x", "\u{feff}{}", "{'a':1}"]
        {
            assert_eq!(fault::<ChatRequest>(json).0, None, "{json}");
        }
    }

    #[test]
    fn depth_has_a_limit_at_its_border() {
        let nested =
            |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(parse::<ChatRequest>(nested(64).as_bytes(), 64).is_ok());
        assert!(parse::<ChatRequest>(nested(65).as_bytes(), 64).is_err());
        assert!(parse::<ChatRequest>("[".repeat(100_000).as_bytes(), 64).is_err());
        assert_eq!(depth(br#"{"a":"[[[\"[[","b":["]"]}"#), 2);
    }
}
