//! Routes that belong to no dialect.

mod batches;
mod docs;
mod embeddings;
mod files;
mod health;
mod history;
mod info;
mod models;
mod owned;
mod page;
mod tokens;

use axum::Router;
use axum::routing::{get, post};
use serde_json::Value;
use wf_api::wire::{
    Batch, BatchList, BatchRequest, DeletedFile, ErrorBody, FileList, FileObject, FileUpload,
    ModelCard, ModelList, TokenizerInfo,
};

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
        .route::<ModelList>(
            "get",
            "/v1/models",
            Doc("models", "Lists the models that the caller may use.", "The models"),
            JSON,
            get(models::models),
        )
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
        .route::<TokenizerInfo>(
            "get",
            "/tokenizer_info",
            Doc("tokenizer_info", "Describes the tokenizer.", "The tokenizer"),
            JSON,
            get(tokens::tokenizer_info),
        );
    openai.merge(text).merge(files()).merge(operations())
}

fn files() -> Routes {
    let doc = |id, summary| Doc(id, summary, "The batch");
    Routes::new::<ErrorBody>("Files and batches")
        .route::<FileObject>(
            "post",
            "/v1/files",
            Doc("upload_file", "Stores a file.", "The file"),
            JSON,
            post(files::upload),
        )
        .reading_form::<FileUpload>("/v1/files")
        .route::<FileList>(
            "get",
            "/v1/files",
            Doc("files", "Lists the caller's files.", "The files, newest first"),
            JSON,
            get(files::list),
        )
        .route::<FileObject>(
            "get",
            "/v1/files/{file}",
            Doc("file", "Describes a file.", "The file"),
            JSON,
            get(files::retrieve),
        )
        .route::<DeletedFile>(
            "delete",
            "/v1/files/{file}",
            Doc("delete_file", "Deletes a file.", "The id of the file"),
            JSON,
            axum::routing::delete(files::delete),
        )
        .route::<String>(
            "get",
            "/v1/files/{file}/content",
            Doc("file_content", "Returns the content of a file.", "The content"),
            "application/octet-stream",
            get(files::content),
        )
        .route::<Batch>(
            "post",
            "/v1/batches",
            doc("create_batch", "Runs a file of requests."),
            JSON,
            post(batches::create),
        )
        .reading::<BatchRequest>("/v1/batches")
        .route::<BatchList>(
            "get",
            "/v1/batches",
            Doc("batches", "Lists the caller's batches.", "The batches, newest first"),
            JSON,
            get(batches::list),
        )
        .route::<Batch>(
            "get",
            "/v1/batches/{batch}",
            doc("batch", "Describes a batch."),
            JSON,
            get(batches::retrieve),
        )
        .route::<Batch>(
            "post",
            "/v1/batches/{batch}/cancel",
            doc("cancel_batch", "Cancels a batch."),
            JSON,
            post(batches::cancel),
        )
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
        .get(
            "/history",
            Doc("history", "Returns samples of the last hour.", "The samples, oldest first"),
            history::history,
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
    docs::routes(document).route("/", get(page::page)).route(page::MANIFEST, get(page::manifest))
}
