//! The HTTP server: API dialects, streaming, access, limits and metrics.
//!
//! A request passes the layers of [`router`] from the outside in: it gets an id, is counted and logged, has
//! its host, origin and key checked, and reaches its route. Routes that generate text belong to a dialect
//! (`dialects/`), which reads its JSON into a `Generation`; one handler runs all of them. The engine
//! computes on threads of its own, and a client that disconnects drops its sequences, which cancels them.

#![forbid(unsafe_code)]

mod access;
mod app;
pub mod batch;
mod bodies;
mod dialects;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod generation;
mod http;
mod models;
mod observe;
mod options;
mod routes;
mod store;

use axum::{Router, middleware};
use tokio::sync::watch;
use tower::ServiceBuilder;
use tower::util::MapRequest;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};

pub use access::{Hosts, Key, KeyLimits, Keys, SaltKey, Tls, TlsError, TrustedProxy};
pub use app::App;
pub use generation::conversation::read_chat_message;
pub use http::layers::PUBLIC;
pub use http::serve::{Listener, bind};
pub use models::{Description, ListedModel, Listing, LoadModel, ServedModel};
pub use observe::trace::SPANS;
pub use options::{Limits, ServerOptions, UnknownFieldPolicy, default_sampling};
pub use store::{FileStore, StoreLimits};

use http::paths::Paths;
use http::{layers, request_id};

/// Builds the router of all routes and layers.
pub fn router(app: &App) -> Router {
    let (api, document) = routes::api().merge(dialects::routes()).into_parts();
    let paths = Paths::new(&document);
    let routes = api
        .merge(routes::undocumented(document))
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
        .with_state(app.clone());
    // Around the router, since a path decides on the route before any layer of it runs.
    let corrected = MapRequest::new(routes, move |request| paths.correct(request));
    Router::new().fallback_service(corrected)
}

/// Serves until `stop` resolves, and then until all responses are sent or the drain timeout has passed.
pub async fn serve(listener: Listener, app: App, stop: impl Future<Output = ()>) {
    let router = router(&app);
    let stopping = watch::Sender::new(false);
    let batches = tokio::spawn(run_batches(app.clone(), router.clone(), stopping.subscribe()));
    let stop = async {
        stop.await;
        stopping.send_replace(true);
    };
    http::serve::serve(listener, app, router, stop).await;
    // Their requests are cancelled by now, unless the server ended without being told to.
    batches.abort();
}

/// Runs the batches of callers until `stop` is true. [`serve`] does the same.
pub async fn run_batches(app: App, router: Router, stop: watch::Receiver<bool>) {
    batch::runner::run(app, router, stop).await;
}
