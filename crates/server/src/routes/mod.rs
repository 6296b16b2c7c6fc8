//! Routes that belong to no dialect.

mod docs;
mod embeddings;
mod health;
mod info;
mod models;
mod page;
mod tokens;

use axum::Router;
use axum::routing::get;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// Returns the routes that the OpenAPI document describes.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(embeddings::embeddings))
        .routes(routes!(models::models))
        .routes(routes!(models::model))
        .routes(routes!(tokens::tokenize))
        .routes(routes!(tokens::detokenize))
        .routes(routes!(tokens::apply_template))
        .routes(routes!(tokens::tokenizer_info))
        .routes(routes!(health::health))
        .routes(routes!(health::livez))
        .routes(routes!(health::metrics))
        .routes(routes!(info::props))
        .routes(routes!(info::slots))
        .routes(routes!(info::version))
}

/// Returns the other routes: the pages, the document itself, and an alias.
pub(crate) fn undocumented(document: OpenApi) -> Router<App> {
    docs::routes(document).route("/", get(page::page)).route("/v1/health", get(health::health))
}
