//! Fields of one request that nothing here knows: rejected, or ignored and reported.

use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::ApiError;
use crate::options::UnknownFieldPolicy;

/// Header that lists the fields that were ignored.
const HEADER: HeaderName = HeaderName::from_static("x-wf-ignored-fields");

/// Maximum number of names in the header, and of characters of a name.
const MAX_NAMES: usize = 32;
const MAX_NAME_LEN: usize = 64;

/// Unknown fields of one request.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields {
    policy: UnknownFieldPolicy,
    ignored: Mutex<Vec<String>>,
}

impl UnknownFields {
    pub(crate) fn new(policy: UnknownFieldPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Rejects a field, or notes that it is ignored.
    pub(crate) fn found(&self, name: &str) -> Result<(), ApiError> {
        if self.policy == UnknownFieldPolicy::Reject {
            let error = ApiError::field(name, format!("unknown field {name:?}"));
            return Err(ApiError { code: "unknown_parameter", ..error });
        }
        self.ignore(name);
        Ok(())
    }

    /// Notes that a field is ignored.
    pub(crate) fn ignore(&self, name: &str) {
        let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        if ignored.len() < MAX_NAMES {
            // A name may have characters that headers cannot have.
            let name = name.escape_default().filter(|c| *c != ',');
            ignored.push(name.take(MAX_NAME_LEN).collect());
        }
    }

    /// Adds the names of ignored fields to the headers of a response.
    pub(crate) fn report(&self, headers: &mut HeaderMap) {
        let ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        let names = HeaderValue::from_str(&ignored.join(", "));
        if let (false, Ok(names)) = (ignored.is_empty(), names) {
            headers.insert(HEADER, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_rejected_or_reported() {
        let error = UnknownFields::default().found("temprature").unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), ("unknown_parameter", Some("temprature")));

        let fields = UnknownFields::new(UnknownFieldPolicy::Ignore);
        let mut headers = HeaderMap::new();
        fields.report(&mut headers);
        assert!(headers.is_empty());
        let long = "x".repeat(1000);
        for name in ["a", "b,\r\né", &long] {
            fields.found(name).unwrap();
        }
        (0..100).for_each(|_| fields.found("more").unwrap());
        fields.report(&mut headers);
        let listed = headers[HEADER].to_str().unwrap();
        assert!(listed.starts_with("a, b\\r\\n\\u{e9}, xxx"), "{listed}");
        assert_eq!(listed.split(", ").count(), MAX_NAMES);
    }
}
