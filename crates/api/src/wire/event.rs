//! Server-sent events with names.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A server-sent event with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedEvent {
    /// Name of the event: the `type` in its data.
    pub event: String,
    /// A JSON object.
    pub data: String,
}
