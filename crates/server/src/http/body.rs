//! Reads and parses JSON bodies. Errors name the field at fault.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::json::JsonSize;
use crate::access::Caller;
use crate::app::App;
use crate::bodies::Hold;
use crate::error::ApiError;
use crate::options::Limits;

/// Bytes that have to arrive within each read timeout.
const MIN_PROGRESS: usize = 1024;

/// Reads a JSON body, within the limits on size, time and structure, and on the bodies of all connections.
pub(crate) async fn read_json<T: DeserializeOwned + Send + 'static>(
    request: Request<Body>,
    app: &App,
) -> Result<T, ApiError> {
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let caller = head.extensions.get::<Caller>().ok_or_else(ApiError::unauthorized)?;
    let mut hold = app.bodies.hold(caller.name());
    let limits = app.options.limits;
    let bytes = read(body, &head.headers, &limits, &mut hold).await?;
    app.bodies.parse(bytes, move |bytes| parse(bytes, &limits)).await
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

async fn read(
    mut body: Body,
    headers: &HeaderMap,
    limits: &Limits,
    hold: &mut Hold,
) -> Result<Vec<u8>, ApiError> {
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
                    hold.add(data.len())?;
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
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], limits: &Limits) -> Result<T, ApiError> {
    check_size(JsonSize::of(bytes), limits)?;
    // Most bodies are valid, and need no tree of values.
    if let Ok(valid) = serde_json::from_slice(bytes) {
        return Ok(valid);
    }
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(format!("request body is not valid JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(ApiError::invalid("request body must be a JSON object"));
    };
    let all = serde_path_to_error::deserialize(Value::Object(fields.clone()));
    all.map_err(|error| find_field::<T>(fields, error))
}

fn check_size(size: JsonSize, limits: &Limits) -> Result<(), ApiError> {
    let (depth, parts, values) = (limits.json_depth, limits.json_parts, limits.json_values);
    let problem = match size {
        size if size.depth > depth => {
            format!("JSON is nested deeper than the limit of {depth} levels")
        }
        size if size.parts > parts => {
            format!("JSON has more objects, arrays and fields than the limit of {parts}")
        }
        size if size.values > values => format!("JSON has more values than the limit of {values}"),
        _ => return Ok(()),
    };
    Err(ApiError::invalid(problem))
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

#[cfg(test)]
mod tests {
    use wf_api::wire::{ChatRequest, CompletionRequest, DetokenizeRequest};

    use super::*;

    fn fault<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> (Option<String>, String) {
        let error = parse::<T>(json.as_bytes(), &Limits::default()).unwrap_err();
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
        let parse = |json: String| parse::<ChatRequest>(json.as_bytes(), &Limits::default());
        assert!(parse(nested(64)).is_ok());
        assert!(parse(nested(65)).is_err());
        assert!(parse("[".repeat(100_000)).is_err());
    }

    #[test]
    fn parts_and_values_are_limited() {
        let limits = Limits { json_parts: 10, json_values: 20, ..Limits::default() };
        let parse = |metadata: &str| {
            let json = format!("{{\"metadata\":[{metadata}]}}");
            let parsed = parse::<ChatRequest>(json.as_bytes(), &limits);
            parsed.map_or_else(|error| error.message, |_| String::new())
        };
        assert_eq!(parse(&["{}"; 7].join(",")), "");
        assert!(
            parse(&["{}"; 8].join(",")).contains("objects, arrays and fields than the limit of 10")
        );
        assert_eq!(parse(&["0"; 19].join(",")), "");
        assert!(parse(&["0"; 20].join(",")).contains("more values than the limit of 20"));
    }
}
