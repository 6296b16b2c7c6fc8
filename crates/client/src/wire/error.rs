//! What every refusal looks like.

use serde::{Deserialize, Serialize};

/// The body of an answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// An error. All four fields are there always.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorDetail {
    /// What is wrong, and what is allowed.
    pub message: String,
    /// What kind of error: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The field at fault, if one is.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<String>,
}
