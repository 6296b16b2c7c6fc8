//! `GET /v1/models`.

use serde::{Deserialize, Serialize};

/// The models served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// `list`.
    pub object: String,
    /// One for each.
    pub data: Vec<ModelCard>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelCard {
    /// What requests call it.
    pub id: String,
    /// `model`.
    pub object: String,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// `wrinklefree`.
    pub owned_by: String,
    /// The most tokens that prompt and reply may have together.
    pub max_model_len: usize,
    /// What its weights are: changes with any of their bits.
    pub digest: String,
}
