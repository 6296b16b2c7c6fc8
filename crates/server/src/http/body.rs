//! Reads and parses JSON bodies. Errors name the field at fault.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;
use wf_core::SamplingParams;

use super::chunks::next_chunk;
use super::json::JsonSize;
use super::raw_fields::{FieldUse, RawFields};
use super::type_errors::{in_json_terms, is_missing};
use crate::access::Caller;
use crate::app::App;
use crate::bodies::Hold;
use crate::error::ApiError;
use crate::options::Limits;

/// Pairs of names of one field: ours, which errors have, and another.
pub(crate) type Names = &'static [(&'static str, &'static str)];

/// The JSON body of a request.
pub(crate) trait RequestBody: DeserializeOwned + Send + 'static {
    /// Names of fields that our code calls differently.
    const OWN_NAMES: Names = &[];
    /// Further names of fields.
    const OTHER_NAMES: Names = &[];
    /// Fields that may have long lists of token ids, which are built as such.
    const TOKEN_LISTS: &'static [&'static str] = &[];
    /// Names of the field with the name of the model: the first that is set counts.
    const MODEL_FIELDS: &'static [&'static str] = &["model"];
    /// Response of requests without `stream`: true for a stream.
    const STREAMS_BY_DEFAULT: bool = false;

    /// Returns what is done with a field.
    fn use_of(_field: &str) -> FieldUse {
        FieldUse::Read
    }
}

/// A body, and the names under which it has its fields, as pairs of ours and theirs.
pub(crate) struct Received<T> {
    pub(crate) body: T,
    /// Name of the model that it is for.
    pub(crate) model: Option<String>,
    /// True if the response is to be streamed.
    pub(crate) stream: bool,
    pub(crate) names: Vec<(&'static str, &'static str)>,
}

/// Reads a JSON body, within the limits on size, time and structure, and on the bodies of all connections.
pub(crate) async fn read_json<T: RequestBody>(
    request: Request<Body>,
    app: &App,
) -> Result<Received<T>, ApiError> {
    let (head, body) = request.into_parts();
    check_encoding(&head.headers)?;
    let caller = head.extensions.get::<Caller>().ok_or_else(ApiError::unauthorized)?;
    let mut hold = app.bodies.hold(caller.name());
    let limits = app.options.limits;
    let bytes = read(body, &head.headers, &limits, &mut hold).await?;
    app.bodies.parse(bytes, move |bytes| parse(bytes, &limits)).await
}

/// Rejects compressed bodies. The content type does not matter: some clients send none or another, and pages of
/// other sites, which could send JSON as text without asking, are rejected by their origin.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity") => Ok(()),
        Some(_) => Err(ApiError::status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "request body must not be compressed",
        )),
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
    while let Some(chunk) = next_chunk(&mut body, limits).await? {
        if bytes.len() + chunk.len() > max {
            return Err(too_large());
        }
        hold.add(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Parses a JSON object.
pub(crate) fn parse<T: RequestBody>(
    bytes: &[u8],
    limits: &Limits,
) -> Result<Received<T>, ApiError> {
    check_size(JsonSize::of(bytes), limits)?;
    let mut fields = RawFields::parse(bytes).map_err(|error| match error.classify() {
        Category::Data => ApiError::invalid("request body must be a JSON object"),
        _ => ApiError::invalid(format!("request body is not valid JSON: {error}")),
    })?;
    let model = T::MODEL_FIELDS.iter().find_map(|name| fields.value(name));
    let stream = fields.value("stream").unwrap_or(T::STREAMS_BY_DEFAULT);
    let sent = fields.skip_unread(T::use_of);
    check_fields::<T>(&fields, limits)?;
    let body = build(fields)?;
    Ok(Received { body, model, stream, names: names_as_sent::<T>(&sent) })
}

/// Limits what is built: a list of values takes many times the memory of its text, but not a list of token ids.
fn check_fields<T: RequestBody>(fields: &RawFields<'_>, limits: &Limits) -> Result<(), ApiError> {
    let values = |(name, value): (_, &RawValue)| {
        let JsonSize { values, numbers, .. } = JsonSize::of(value.get().as_bytes());
        let built = if T::TOKEN_LISTS.contains(&name) { values - numbers } else { values };
        (built, name)
    };
    let (all, largest) = fields.iter().map(values).fold((0, (0, "")), |(all, largest), field| {
        (all + field.0, if field.0 > largest.0 { field } else { largest })
    });
    if all <= limits.field_values {
        return Ok(());
    }
    let (name, max) = (largest.1, limits.field_values);
    let what = format!("has too many values: all fields together must have at most {max}");
    Err(ApiError::at(name, &what))
}

/// Builds a body, or finds the field at fault. Most bodies are valid, and need no tree of values.
fn build<T: RequestBody>(mut fields: RawFields<'_>) -> Result<T, ApiError> {
    if let Ok(body) = fields.build() {
        return Ok(body);
    }
    // An inner object may have a field twice.
    let deduplicated = fields.deduplicate(|name| !T::TOKEN_LISTS.contains(&name));
    deduplicated.map_err(|(name, error)| ApiError::at(name, &in_json_terms(&error)))?;
    fields.build().map_err(|error| find_field::<T>(&fields, &error))
}

/// Returns the names that errors have to use.
fn names_as_sent<T: RequestBody>(sent: &[String]) -> Vec<(&'static str, &'static str)> {
    let is_sent = |name: &str| sent.iter().any(|sent| sent == name);
    let own = T::OWN_NAMES.iter().filter(|(ours, _)| !is_sent(ours));
    let params = SamplingParams::SPECS.iter();
    let params = params.flat_map(|spec| spec.aliases.iter().map(|alias| (spec.name, *alias)));
    let others = T::OTHER_NAMES.iter().copied().chain(params);
    own.copied().chain(others.filter(|(_, theirs)| is_sent(theirs))).collect()
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
fn find_field<T: RequestBody>(fields: &RawFields<'_>, error: &serde_json::Error) -> ApiError {
    let found = fields.alone().find_map(|(name, alone)| {
        let (path, message) = fault::<T>(&alone, name)?;
        let inner = match T::use_of(name) {
            FieldUse::ReadFields(_) if path == name => find_inner::<T>(&alone, name),
            _ => None,
        };
        Some(inner.unwrap_or((path, message)))
    });
    match found {
        Some((param, message)) => ApiError::at(param, &message),
        None => ApiError::invalid(in_json_terms(error)),
    }
}

/// Finds the field at fault inside of an object, which is the only field.
fn find_inner<T: RequestBody>(object: &RawFields<'_>, name: &str) -> Option<(String, String)> {
    let (_, text) = object.iter().next()?;
    let inner = RawFields::parse(text.get().as_bytes()).ok()?;
    inner.alone().find_map(|(field, alone)| {
        let object = alone.to_raw()?;
        let (_, message) = fault::<T>(&RawFields::one(name, &object), name)?;
        Some((format!("{name}.{field}"), message))
    })
}

/// Returns the path and the message of an error in a field that is parsed alone.
fn fault<T: RequestBody>(alone: &RawFields<'_>, name: &str) -> Option<(String, String)> {
    let error = alone.build_with_path::<T>().err()?;
    let path = error.path().to_string();
    let message = in_json_terms(error.inner());
    let is_inside = path.starts_with(name);
    // The other fields are missing because this one is parsed alone.
    let is_other = is_missing(error.inner()) && !is_inside;
    (!is_other).then(|| (if is_inside { path } else { name.to_owned() }, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wf_api::wire::{ChatRequest, CompletionRequest, DetokenizeRequest};

    use super::*;

    fn fault<T: RequestBody>(json: &str) -> (Option<String>, String) {
        let parsed = parse::<T>(json.as_bytes(), &Limits::default());
        let error = parsed.err().unwrap();
        (error.param, error.message)
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let param = |json| fault::<ChatRequest>(json).0;
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(param(r#"{"temperature": "hot", "n": 1}"#), named("temperature"));
        assert_eq!(param(r#"{"n": -1}"#), named("n"));
        assert_eq!(param(r#"{"n": 1.5}"#), named("n"));
        assert_eq!(param(r#"{"n": 1e400}"#), named("n"));
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
        for json in ["", "{", "[]", "7", "null", "{} x", "\u{feff}{}", "{'a':1}"] {
            assert_eq!(fault::<ChatRequest>(json).0, None, "{json}");
        }
    }

    #[test]
    fn of_fields_with_the_same_name_the_last_one_counts() {
        let json = br#"{"n": 1, "messages": [{"role": "a", "role": "user"}], "n": 2}"#;
        let chat = parse::<ChatRequest>(json, &Limits::default()).unwrap().body;
        assert_eq!((chat.sampling.n, chat.messages[0].role.as_str()), (Some(2), "user"));
    }

    #[test]
    fn ignored_fields_are_not_built() {
        // A number that cannot be built.
        let json = br#"{"user": 1e999, "session_params": [1e999], "metadata": {"x": 1e999, "decode": "lookup"}}"#;
        let extra = parse::<ChatRequest>(json, &Limits::default()).unwrap().body.extra;
        assert_eq!(Value::Object(extra), json!({"metadata": {"decode": "lookup"}}));
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
