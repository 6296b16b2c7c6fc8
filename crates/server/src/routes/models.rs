//! `GET /v1/models`.

use axum::Json;
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
