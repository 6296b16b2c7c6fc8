//! `GET /v1/models`.

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use wf_api::wire::{ModelCard, ModelList, ModelStatus};

use crate::app::App;
use crate::error::ApiError;
use crate::http::viewer::Viewer;
use crate::models::Registry;

pub(super) async fn models(viewer: Viewer) -> Result<Json<ModelList>, ApiError> {
    let (app, models) = (&viewer.app, viewer.app.models()?);
    let cards = |at: usize| {
        let names = models.listing(at).names.iter();
        names.map(move |name| card(app, models, at, name))
    };
    let data = models.open_to(viewer.caller()?).into_iter().flat_map(cards).collect();
    Ok(Json(ModelList { object: "list".into(), data }))
}

pub(super) async fn model(
    viewer: Viewer,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, ApiError> {
    let not_text = |_| ApiError::no_such_model("model not found: its name is not UTF-8".to_owned());
    let Path(name) = name.map_err(not_text)?;
    let models = viewer.app.models()?;
    let at = models.find(viewer.caller()?, Some(&name))?;
    Ok(Json(card(&viewer.app, models, at, &name)))
}

fn card(app: &App, models: &Registry, at: usize, name: &str) -> ModelCard {
    let (listing, profile) = (models.listing(at), models.known_profile(at));
    let status = if models.is_loaded(at) { ModelStatus::LOADED } else { ModelStatus::UNLOADED };
    ModelCard {
        id: name.to_owned(),
        object: "model".into(),
        created: app.created,
        owned_by: "wrinklefree".into(),
        max_model_len: profile.as_ref().map_or(listing.context_len, |known| known.max_len),
        digest: profile.map(|known| known.digest.clone()),
        status: Some(ModelStatus { value: status.into() }),
    }
}
