//! Error responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of an error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// Details of an error. All four fields are always present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Description of the problem, and of the values allowed.
    pub message: String,
    /// Type of error: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Path of the field at fault, if there is one.
    pub param: Option<String>,
    /// Machine-readable code.
    pub code: Option<String>,
}
