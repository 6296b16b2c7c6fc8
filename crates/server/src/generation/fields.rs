//! Fields of requests that have no type: accepted and ignored, accepted with harmless values, or rejected by name.

use serde_json::Value;
use wf_api::wire::JsonObject;

use crate::error::ApiError;

/// Untyped fields of a dialect.
pub(crate) struct FieldRules {
    /// Labels and hints that do not change the output.
    pub(crate) ignored: &'static [&'static str],
    /// Fields that would change the output, each with the JSON values that would not.
    pub(crate) unsupported: &'static [(&'static str, &'static [&'static str])],
}

impl FieldRules {
    /// Checks all fields that a request type does not declare.
    pub(crate) fn check(&self, extra: &JsonObject) -> Result<(), ApiError> {
        for (name, value) in extra {
            if value.is_null() || self.ignored.contains(&name.as_str()) {
                continue;
            }
            let Some((_, harmless)) = self.unsupported.iter().find(|(field, _)| field == name)
            else {
                let message = format!("unknown field {name:?}");
                let error = ApiError::field(name, message);
                return Err(ApiError { code: "unknown_parameter", ..error });
            };
            let is_harmless =
                |text: &&str| serde_json::from_str(text).is_ok_and(|same: Value| same == *value);
            if !harmless.iter().any(is_harmless) {
                let message = match harmless {
                    [] => format!("{name} is not supported"),
                    harmless => format!("{name} is only supported as {}", harmless.join(" or ")),
                };
                return Err(ApiError::unsupported(name, message));
            }
        }
        Ok(())
    }
}

/// Rejects lists that are too long.
pub(crate) fn check_count(param: &str, count: usize, max: usize) -> Result<(), ApiError> {
    if count <= max {
        return Ok(());
    }
    Err(ApiError::field(param, format!("{param} has {count} entries: must have at most {max}")))
}
