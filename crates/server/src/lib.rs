//! The HTTP server: API dialects, streaming, access, limits and metrics.
//!
//! A request passes the layers of [`router`] from the outside in: it gets an id, is counted and logged, has
//! its host, origin and key checked, and reaches its route. Routes that generate text belong to a dialect
//! (`dialects/`), which reads its JSON into a `Generation`; one handler runs all of them. The engine
//! computes on threads of its own, and a client that disconnects drops its sequences, which cancels them.

#![forbid(unsafe_code)]

mod access;
mod app;
mod bodies;
mod dialects;
mod error;
mod generation;
mod http;
mod observe;
mod options;
mod routes;

use axum::{Router, middleware};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};

pub use access::{Hosts, Key, KeyLimits, Keys, Tls, TlsError};
pub use app::{App, ServedModel};
pub use http::layers::PUBLIC;
pub use http::serve::{Listener, bind};
pub use observe::trace::SPANS;
pub use options::{Limits, ServerOptions, default_sampling};

use http::{layers, request_id};

/// Builds the router of all routes and layers.
pub fn router(app: &App) -> Router {
    let (api, document) = routes::api().merge(dialects::routes()).into_parts();
    api.merge(routes::undocumented(document))
        .fallback(layers::unknown_route)
        .method_not_allowed_fallback(layers::unknown_method)
        .layer(
            ServiceBuilder::new()
                .map_request(request_id::drop_invalid)
                .layer(SetRequestIdLayer::new(request_id::HEADER, request_id::RandomId))
                .layer(PropagateRequestIdLayer::new(request_id::HEADER))
                .layer(middleware::from_fn_with_state(app.clone(), layers::observe))
                .layer(middleware::from_fn(dialects::render_errors))
                .layer(CatchPanicLayer::custom(layers::PanicHandler(app.clone())))
                .layer(middleware::from_fn_with_state(app.clone(), layers::check_target))
                .option_layer(layers::cors(app))
                .layer(middleware::from_fn_with_state(app.clone(), layers::authenticate)),
        )
        .with_state(app.clone())
}

/// Serves until `stop` resolves, and then until all responses are sent or the drain timeout has passed.
pub async fn serve(listener: Listener, app: App, stop: impl Future<Output = ()>) {
    let router = router(&app);
    http::serve::serve(listener, app, router, stop).await;
}
