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
use serde_json::Value;
use wf_api::wire::{ErrorBody, ModelCard};

use crate::app::App;
use crate::http::routes::{Doc, JSON, Routes};
use info::{Props, Slot};

/// Returns the routes that the OpenAPI document describes.
pub(crate) fn api() -> Routes {
    let openai = Routes::new::<ErrorBody>("OpenAI")
        .post(
            "/v1/embeddings",
            Doc("embeddings", "Computes embeddings.", "One vector per text"),
            embeddings::embeddings,
        )
        .get("/v1/models", Doc("models", "Lists the models.", "All models"), models::models)
        .route::<ModelCard>(
            "get",
            "/v1/models/{model}",
            Doc("model", "Describes a model.", "The model"),
            JSON,
            get(models::model),
        );
    let text = Routes::new::<ErrorBody>("Text")
        .post(
            "/tokenize",
            Doc("tokenize", "Tokenizes a text or a conversation.", "The tokens"),
            tokens::tokenize,
        )
        .post("/detokenize", Doc("detokenize", "Detokenizes.", "The text"), tokens::detokenize)
        .post(
            "/apply-template",
            Doc("apply_template", "Renders a conversation with the chat template.", "The text"),
            tokens::apply_template,
        )
        .get(
            "/tokenizer_info",
            Doc("tokenizer_info", "Describes the tokenizer.", "The tokenizer"),
            tokens::tokenizer_info,
        );
    openai.merge(text).merge(operations())
}

fn operations() -> Routes {
    let ready = "The server is ready; while the model is loading or the server is shutting down, the status is 503";
    let props = "Model, defaults and limits";
    let slots = "The sequences, oldest first";
    let metrics = "Counters, gauges and histograms";
    Routes::new::<ErrorBody>("Operations")
        .get(
            "/health",
            Doc("health", "Reports whether requests are served.", ready),
            health::health,
        )
        .alias("/v1/health", health::health)
        .route::<String>(
            "get",
            "/livez",
            Doc("livez", "Reports that the process runs.", "The process runs"),
            "text/plain",
            get("ok"),
        )
        .route::<String>(
            "get",
            "/metrics",
            Doc("metrics", "Returns Prometheus metrics.", metrics),
            "application/openmetrics-text",
            get(health::metrics),
        )
        .route::<Props>(
            "get",
            "/props",
            Doc("props", "Returns model, defaults and limits.", props),
            JSON,
            get(info::props),
        )
        .route::<Vec<Slot>>(
            "get",
            "/slots",
            Doc("slots", "Lists the caller's sequences in flight; for operators, all.", slots),
            JSON,
            get(info::slots),
        )
        .get(
            "/version",
            Doc("version", "Returns the version of the server.", "The version"),
            info::version,
        )
}

/// Returns the other routes: the pages, and the document itself.
pub(crate) fn undocumented(document: Value) -> Router<App> {
    docs::routes(document).route("/", get(page::page))
}
