//! `GET /v1/models`.

use axum::Json;
use axum::extract::{Path, State};
use wf_api::wire::{ErrorBody, ModelCard, ModelList};

use crate::app::{App, ServedModel};
use crate::error::ApiError;

/// Lists the models.
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI", responses(
    (status = 200, description = "All models", body = ModelList),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn models(State(app): State<App>) -> Result<Json<ModelList>, ApiError> {
    let model = app.model()?;
    let data = model.names.iter().map(|name| card(&app, model, name)).collect();
    Ok(Json(ModelList { object: "list".into(), data }))
}

/// Describes a model.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "OpenAI",
    params(("model" = String, Path, description = "Name of the model")),
    responses(
        (status = 200, description = "The model", body = ModelCard),
        (status = "default", description = "Error", body = ErrorBody),
    ))]
pub(super) async fn model(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<ModelCard>, ApiError> {
    let model = app.model()?;
    model.check_name(Some(&name))?;
    Ok(Json(card(&app, model, model.names.iter().find(|ours| **ours == name).unwrap_or(&name))))
}

fn card(app: &App, model: &ServedModel, name: &str) -> ModelCard {
    ModelCard {
        id: name.to_owned(),
        object: "model".into(),
        created: app.created,
        owned_by: "wrinklefree".into(),
        max_model_len: model.frontend.context_len(),
        digest: model.digest.clone(),
    }
}
