//! `GET /v1/models`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// List of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// `list`.
    pub object: String,
    /// One entry per name of the model.
    pub data: Vec<ModelCard>,
}

/// Description of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelCard {
    /// Name that requests use.
    pub id: String,
    /// `model`.
    pub object: String,
    /// Start time of the server in seconds since 1970.
    pub created: u64,
    /// `wrinklefree`.
    pub owned_by: String,
    /// Maximum number of tokens of prompt and completion together.
    pub max_model_len: usize,
    /// Digest of the weights.
    pub digest: String,
}
