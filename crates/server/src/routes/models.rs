//! `GET /v1/models`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use wf_api::wire::{ModelCard, ModelList};

use crate::app::{App, ServedModel};
use crate::error::ApiError;

pub(super) async fn models(app: App) -> Result<ModelList, ApiError> {
    let model = app.model()?;
    let data = model.names.iter().map(|name| card(&app, model, name)).collect();
    Ok(ModelList { object: "list".into(), data })
}

pub(super) async fn model(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, ApiError> {
    let not_text = |_| ApiError::no_such_model("model not found: its name is not UTF-8".to_owned());
    let Path(name) = name.map_err(not_text)?;
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
