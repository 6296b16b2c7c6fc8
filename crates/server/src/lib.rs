//! HTTP: routes, streaming, metrics.
//!
//! A request passes the layers of [`router`] from the outside in: it gets a name, is counted and
//! logged, must be for us (`guard.rs`), must have a key (`auth.rs`), and reaches its route, which turns
//! bytes into a [`wf_engine::Generate`] and pieces of text into bytes. Nothing here computes: the
//! engine has threads of its own, and a reader that goes away drops its replies, which cancels them.

#![forbid(unsafe_code)]

mod app;
mod asked;
mod auth;
mod body;
mod decoding;
mod dialects;
mod embeddings;
mod error;
mod form;
mod guard;
mod in_flight;
mod layers;
mod logprobs;
mod metrics;
mod openapi;
mod options;
mod replies;
mod request_id;
mod routes;
mod serve;
mod stall;
mod stream;
mod structured;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod tools;
mod trace;

use axum::routing::get;
use axum::{Router, middleware};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use app::{App, ServedModel};
pub use auth::Keys;
pub use guard::Hosts;
pub use options::{Limits, SamplingDefaults, ServerOptions};
pub use serve::{Bound, bind, serve};
pub use tls::{Tls, TlsError};
pub use trace::SPANS;

use dialects::{anthropic, ollama, responses, sglang};
use routes::{chat, completions, docs, embeddings as vectors, health, info, models, page, tokens};

/// Every route that the description of the API has.
fn routes_of() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(chat::chat))
        .routes(routes!(completions::completions))
        .routes(routes!(vectors::embeddings))
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
        .routes(routes!(sglang::generate))
        .routes(routes!(sglang::server_info))
        .routes(routes!(sglang::model_info))
        .routes(routes!(sglang::flush_cache))
        .routes(routes!(sglang::loads))
        .routes(routes!(responses::responses))
        .routes(routes!(anthropic::messages))
        .routes(routes!(anthropic::count_tokens))
        .routes(routes!(ollama::chat))
        .routes(routes!(ollama::generate))
        .routes(routes!(ollama::embed::embed_texts))
        .routes(routes!(ollama::embed::embed_prompt))
        .routes(routes!(ollama::models::tags))
        .routes(routes!(ollama::models::show))
        .routes(routes!(ollama::models::ps))
        .routes(routes!(ollama::models::version))
}

/// The paths that need no key.
pub const PUBLIC: [&str; 3] = ["/", "/health", "/livez"];

/// Everything the server answers.
pub fn router(app: &App) -> Router {
    let (routes, _) = routes_of().split_for_parts();
    routes
        .route("/", get(page::page))
        .route("/docs", get(docs::page))
        .route("/openapi.json", get(docs::openapi))
        // The names that routers of other versions ask for.
        .route("/get_server_info", get(sglang::server_info))
        .route("/get_model_info", get(sglang::model_info))
        .route("/v1/health", get(health::health))
        .fallback(layers::no_such_route)
        .method_not_allowed_fallback(layers::no_such_method)
        .layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(app.clone(), layers::name_and_count))
                .layer(middleware::from_fn(dialects::say_errors))
                .layer(CatchPanicLayer::custom(layers::Panicked(app.clone())))
                .layer(middleware::from_fn_with_state(app.clone(), layers::admit)),
        )
        .with_state(app.clone())
}
