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
    /// Digest of the weights; absent until the model is loaded for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// State of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ModelStatus>,
}

/// State of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelStatus {
    /// `loaded`, or `unloaded` for a model that is loaded when a request needs it.
    pub value: String,
}

impl ModelStatus {
    /// State of a model in memory.
    pub const LOADED: &'static str = "loaded";
    /// State of a model that is not in memory.
    pub const UNLOADED: &'static str = "unloaded";
}
