//! The lines of a batch: requests in, results out.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Answer;
use crate::http::json::JsonSize;

/// Endpoints that a batch can use.
pub const ENDPOINTS: [&str; 4] =
    ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"];
/// Maximum number of objects, arrays and fields in a line, and of values, such as token ids: a tree of small values takes
/// many times its text.
const MAX_PARTS: usize = 64 << 10;
const MAX_VALUES: usize = 256 << 10;
/// Characters of an id, enough to tell requests apart.
const ID_LEN: usize = 32;

/// A request of a batch: a line whose `custom_id` is known. The rest is checked when it runs, so that its errors
/// are results.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLine {
    custom_id: String,
    digest: String,
    fields: Map<String, Value>,
    /// Endpoint of its batch, if all requests have the same.
    endpoint: Option<&'static str>,
}

/// A result of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchResult {
    /// Id that follows from the text of the request.
    pub id: String,
    /// Id that the author of the batch chose.
    pub custom_id: String,
    /// The response, or the reason why there is none.
    pub outcome: Result<Answer, BatchError>,
}

/// A request that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// Machine-readable code.
    pub code: &'static str,
    /// Description of the problem, and of the values allowed.
    pub message: String,
}

impl BatchLine {
    /// Parses a line.
    ///
    /// # Errors
    ///
    /// If the line is not a JSON object with a `custom_id`: its result could not be told from others. Or if it has too
    /// many values.
    pub fn parse(line: &str) -> Result<Self, String> {
        let JsonSize { parts, values, .. } = JsonSize::of(line.as_bytes());
        if parts > MAX_PARTS || values > MAX_VALUES {
            return Err(format!(
                "has {parts} objects, arrays and fields and {values} values: must have at most {MAX_PARTS} and \
                 {MAX_VALUES}"
            ));
        }
        let fields: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| format!("must be a JSON object: {error}"))?;
        let custom_id = match fields.get("custom_id") {
            Some(Value::String(id)) if !id.is_empty() => id.clone(),
            Some(_) => return Err("custom_id must be a string that is not empty".to_owned()),
            None => return Err("custom_id is missing".to_owned()),
        };
        let digest = Sha256::digest(line.trim());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { custom_id, digest, fields, endpoint: None })
    }

    /// Returns the id of the result, which follows from the text of the request, and the `custom_id`.
    pub fn id(&self) -> (String, String) {
        let digest = self.digest.get(..ID_LEN).unwrap_or(&self.digest);
        (format!("batch_req_{digest}"), self.custom_id.clone())
    }

    /// Returns the result of a request that ends for another reason than its own.
    pub fn fail(&self, code: &'static str, message: &str) -> BatchResult {
        let (id, custom_id) = self.id();
        let outcome = Err(BatchError { code, message: message.to_owned() });
        BatchResult { id, custom_id, outcome }
    }

    /// Returns the request, which fails unless it is for this endpoint.
    #[must_use]
    pub fn for_endpoint(self, endpoint: &'static str) -> Self {
        Self { endpoint: Some(endpoint), ..self }
    }

    /// Returns the endpoint and the body of the request.
    pub(super) fn into_request(mut self) -> Result<(&'static str, Value), BatchError> {
        let invalid = |code, message: String| Err(BatchError { code, message });
        match self.fields.get("method") {
            Some(Value::String(method)) if method == "POST" => {}
            other => {
                let found = other.map_or("missing".to_owned(), Value::to_string);
                return invalid("invalid_method", format!("method is {found}: must be \"POST\""));
            }
        }
        let url = self.fields.get("url").and_then(Value::as_str);
        let allowed = self.endpoint.as_ref().map_or(&ENDPOINTS[..], std::slice::from_ref);
        let Some(endpoint) = allowed.iter().find(|endpoint| url == Some(endpoint)) else {
            let found = self.fields.get("url").map_or("missing".to_owned(), Value::to_string);
            let message = match allowed {
                [endpoint] => format!("url is {found}: must be {endpoint}, as for the whole batch"),
                _ => format!("url is {found}: must be one of {}", allowed.join(", ")),
            };
            return invalid("invalid_url", message);
        };
        let Some(Value::Object(body)) = self.fields.remove("body") else {
            return invalid("invalid_body", "body must be an object".to_owned());
        };
        if body.get("stream").is_some_and(|stream| *stream == Value::Bool(true)) {
            return invalid("invalid_body", "body.stream must not be true in a batch".to_owned());
        }
        Ok((endpoint, Value::Object(body)))
    }
}

/// The part of a result that tells which request it belongs to, and how that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultSummary {
    /// Id of the result.
    pub id: String,
    /// Id of the request.
    pub custom_id: String,
    /// True if the server accepted the request.
    pub is_success: bool,
}

impl ResultSummary {
    /// Reads the line of a result.
    ///
    /// # Errors
    ///
    /// If the line is not a result.
    pub fn of_line(line: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fields {
            id: String,
            custom_id: String,
            response: Option<Response>,
        }
        #[derive(Deserialize)]
        struct Response {
            status_code: u16,
        }
        let fields: Fields = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let is_success = fields.response.is_some_and(|response| response.status_code == 200);
        Ok(Self { id: fields.id, custom_id: fields.custom_id, is_success })
    }
}

impl BatchResult {
    /// True if the server accepted the request.
    pub fn is_success(&self) -> bool {
        matches!(&self.outcome, Ok(answer) if answer.status == 200)
    }

    /// Returns the line of the result, without a line break.
    pub fn to_line(&self) -> String {
        let response = self.outcome.as_ref().ok().map(|answer| {
            let request_id = answer.request_id.as_deref().unwrap_or(&self.id);
            json!({"status_code": answer.status, "request_id": request_id, "body": answer.body})
        });
        let error = self.outcome.as_ref().err();
        let error = error.map(|error| json!({"code": error.code, "message": error.message}));
        json!({
            "id": self.id, "custom_id": self.custom_id, "response": response, "error": error,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &Value) -> Result<(&'static str, Value), BatchError> {
        BatchLine::parse(&line.to_string()).unwrap().into_request()
    }

    #[test]
    fn a_line_without_an_id_is_an_error() {
        for (line, word) in [
            ("", "JSON object"),
            ("[]", "JSON object"),
            ("{}", "custom_id is missing"),
            (r#"{"custom_id": 7}"#, "must be a string"),
            (r#"{"custom_id": ""}"#, "not empty"),
            (&format!("[{}]", "0,".repeat(300_000)), "300001 values: must have at most"),
            (&format!("[{}]", "{},".repeat(70_000)), "70001 objects, arrays and fields"),
        ] {
            let error = BatchLine::parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn other_errors_are_results() {
        let line = |method: &str, url: &str, body: Value| json!({"custom_id": "a", "method": method, "url": url, "body": body});
        for (line, code) in [
            (json!({"custom_id": "a"}), "invalid_method"),
            (line("GET", "/v1/completions", json!({})), "invalid_method"),
            (line("POST", "/v1/files", json!({})), "invalid_url"),
            (line("POST", "/v1/completions", json!("x")), "invalid_body"),
            (line("POST", "/v1/completions", json!({"stream": true})), "invalid_body"),
        ] {
            assert_eq!(request(&line).unwrap_err().code, code, "{line}");
        }
        let body = json!({"prompt": "x", "stream": false});
        let sent = request(&line("POST", "/v1/completions", body.clone()));
        assert_eq!(sent.unwrap(), ("/v1/completions", body));
    }

    #[test]
    fn the_id_of_a_result_follows_from_the_text_of_its_request() {
        let id = |line: &str| BatchLine::parse(line).unwrap().id();
        assert_eq!(id(r#"{"custom_id": "a"}"#), id("{\"custom_id\": \"a\"}\r"));
        assert_ne!(id(r#"{"custom_id": "a"}"#).0, id(r#"{"custom_id": "a", "body": {}}"#).0);
    }

    #[test]
    fn a_result_is_read_back() {
        let (id, custom_id) = ("batch_req_1".to_owned(), "a\n".to_owned());
        let answer = Answer { status: 200, request_id: None, body: json!({"x": 1}) };
        let error = BatchError { code: "invalid_url", message: "m".to_owned() };
        for (outcome, is_success) in [(Ok(answer), true), (Err(error), false)] {
            let result = BatchResult { id: id.clone(), custom_id: custom_id.clone(), outcome };
            assert_eq!(result.is_success(), is_success);
            let line = result.to_line();
            assert!(!line.contains('\n'));
            let (id, custom_id) = (id.clone(), custom_id.clone());
            assert_eq!(
                ResultSummary::of_line(&line),
                Ok(ResultSummary { id, custom_id, is_success })
            );
        }
        assert!(ResultSummary::of_line("{").is_err());
    }
}
