//! Server-sent events with names.

use serde::{Deserialize, Serialize};

/// A server-sent event with a name, as descriptions of the API have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedEvent {
    /// What the event is called: the `type` in its data.
    pub event: String,
    /// A JSON object.
    pub data: String,
}
