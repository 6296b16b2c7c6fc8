//! Layers around all routes: request ids, logs and metrics, access checks, CORS, and panics.

use std::any::Any;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{Method, Request, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::ResponseForPanic;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::{Instrument, Span};

use super::request_id;
use crate::access::{Background, Caller, Peer, client};
use crate::app::App;
use crate::error::ApiError;
use crate::observe::log::RequestLog;
use crate::observe::trace::{record_status, request_span};

/// Paths that need no key.
pub const PUBLIC: [&str; 4] = ["/", "/health", "/livez", "/manifest.webmanifest"];

/// Routes that are polled too often to be worth a log line.
const UNLOGGED: [&str; 4] = ["/health", "/livez", "/metrics", "/history"];

pub(crate) async fn observe(
    State(app): State<App>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let id = request_id::of(request.extensions());
    let method = request.method().clone();
    // Unknown paths share one label, however many a client makes up.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "other".to_owned());
    let is_logged = !UNLOGGED.contains(&route.as_str());
    let span = match is_logged {
        true => request_span(&method, &route, &id, request.headers()),
        false => Span::none(),
    };
    let peer = request.extensions().get::<Peer>().copied().unwrap_or_default();
    let peer = client(peer, request.headers(), &app.options.proxies);
    request.extensions_mut().insert(peer);
    let log = is_logged.then(|| RequestLog::new(method, route.clone(), id, peer.to_string()));
    if let Some(log) = &log {
        request.extensions_mut().insert(log.clone());
    }
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    app.metrics.count_response(&route, status);
    record_status(&span, status);
    if let Some(log) = log {
        log.set_status(status);
        response.extensions().get::<ApiError>().iter().for_each(|error| log.set_error(error.code));
    }
    response
}

/// Rejects requests that are too long, for other hosts, or from pages of other origins.
pub(crate) async fn check_target(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let max_len = app.options.limits.uri_len;
    let target_len = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target_len > max_len {
        let message = format!("request target is longer than the limit of {max_len} bytes");
        let error = ApiError::status(StatusCode::URI_TOO_LONG, "uri_too_long", &message);
        return error.into_response();
    }
    if let Err(error) = app.options.hosts.check(request.uri(), request.headers()) {
        return error.into_response();
    }
    let is_preflight = request.method() == Method::OPTIONS;
    let mut response = next.run(request).await;
    if is_preflight && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

/// Lets pages of the configured origins read responses. There is no layer if there are none.
pub(crate) fn cors(app: &App) -> Option<CorsLayer> {
    let hosts = app.options.hosts.clone();
    if hosts.origins.is_empty() {
        return None;
    }
    let is_allowed = move |origin: &str| hosts.allows_origin(origin);
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| {
            origin.to_str().is_ok_and(&is_allowed)
        }))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        // Libraries send headers of their own, such as `x-stainless-lang`.
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(Duration::from_secs(600));
    Some(layer)
}

/// Rejects requests without a valid key, except on public paths.
pub(crate) async fn authenticate(
    State(app): State<App>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().copied().unwrap_or_default();
    let background = request.extensions().get::<Background>().cloned();
    let caller = match (background, app.keys().check(request.headers())) {
        (Some(Background(caller)), _) => caller,
        (None, Ok(key)) => Caller::new(key, peer),
        (None, Err(_)) if PUBLIC.contains(&request.uri().path()) => return next.run(request).await,
        (None, Err(_)) => return ApiError::unauthorized().into_response(),
    };
    if let Some(log) = request.extensions().get::<RequestLog>() {
        log.set_caller(caller.name());
    }
    request.extensions_mut().insert(caller.clone());
    let mut response = next.run(request).await;
    caller.write_headers(response.headers_mut());
    if let Some(key) = caller.key() {
        app.metrics.count_key_response(&key.name, response.status().as_u16());
    }
    response
}

pub(crate) async fn unknown_route() -> ApiError {
    let message = "unknown path: see /docs for the routes of this server";
    ApiError::status(StatusCode::NOT_FOUND, "not_found", message)
}

pub(crate) async fn unknown_method() -> ApiError {
    let message = "method not allowed on this path: see /docs for the routes of this server";
    ApiError::status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Turns a panic inside one request into a response.
#[derive(Clone)]
pub(crate) struct PanicHandler(pub(crate) App);

impl ResponseForPanic for PanicHandler {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, _: Box<dyn Any + Send>) -> Response {
        self.0.metrics.count_panic();
        ApiError::internal().into_response()
    }
}
