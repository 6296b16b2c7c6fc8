//! What happens to every request before and after its route.

use std::any::Any;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::ResponseForPanic;
use tracing::{Instrument, Span};

use crate::PUBLIC;
use crate::app::App;
use crate::error::ApiError;
use crate::request_id::{self, RequestId};
use crate::trace::{record_status, request_span};

/// Routes that are asked so often that nobody wants to read of it.
const UNLOGGED: [&str; 3] = ["/health", "/livez", "/metrics"];

/// Gives the request its name, counts it and writes it to the log.
pub(crate) async fn name_and_count(
    State(app): State<App>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let start = Instant::now();
    let id = RequestId::of(request.headers());
    let method = request.method().clone();
    // What is no route of ours has one name, however many a client makes up.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "other".to_owned());
    request.extensions_mut().insert(id.clone());
    let is_told = !UNLOGGED.contains(&route.as_str());
    let span = match is_told {
        true => request_span(&method, &route, &id, request.headers()),
        false => Span::none(),
    };
    let mut response = next.run(request).instrument(span.clone()).await;
    response.headers_mut().insert(request_id::HEADER, id.header());
    let status = response.status().as_u16();
    app.metrics.count_answer(&route, status);
    record_status(&span, status);
    if is_told {
        let ms = start.elapsed().as_secs_f64() * 1e3;
        tracing::info!(%method, route, status, ms, id = id.as_str(), "request");
    }
    response
}

/// Lets in who may come in.
pub(crate) async fn admit(
    State(app): State<App>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    match check(&app, &mut request) {
        Err(refused) => refused.into_response(),
        Ok(Some(origin)) if request.method() == Method::OPTIONS => with_origin(preflight(), origin),
        Ok(Some(origin)) => with_origin(next.run(request).await, origin),
        Ok(None) => next.run(request).await,
    }
}

/// The origin to name in the answer, where pages from elsewhere may read it.
fn check(app: &App, request: &mut Request<Body>) -> Result<Option<HeaderValue>, ApiError> {
    let limits = &app.options.limits;
    let target_len = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target_len > limits.uri_bytes {
        let message = format!("the target has more than {} bytes", limits.uri_bytes);
        return Err(ApiError::status(StatusCode::URI_TOO_LONG, "uri_too_long", &message));
    }
    app.options.hosts.check(request.uri(), request.headers())?;
    let origin = request.headers().get(header::ORIGIN).cloned().filter(|origin| {
        origin.to_str().is_ok_and(|origin| app.options.hosts.allows_origin(origin))
    });
    // Browsers ask beforehand without a key, and get to know nothing.
    if origin.is_some() && request.method() == Method::OPTIONS {
        return Ok(origin);
    }
    match app.options.keys.check(request.headers()) {
        Some(caller) => drop(request.extensions_mut().insert(caller)),
        None if PUBLIC.contains(&request.uri().path()) => {}
        None => return Err(ApiError::unauthorized()),
    }
    Ok(origin)
}

fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, x-api-key, x-request-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

fn with_origin(mut response: Response, origin: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    response
}

pub(crate) async fn no_such_route() -> ApiError {
    let message = "there is nothing at this path: /docs lists what there is";
    ApiError::status(StatusCode::NOT_FOUND, "not_found", message)
}

pub(crate) async fn no_such_method() -> ApiError {
    let message = "this path does not take this method: /docs lists what there is";
    ApiError::status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// What a panic inside one request becomes.
#[derive(Clone)]
pub(crate) struct Panicked(pub(crate) App);

impl ResponseForPanic for Panicked {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, _: Box<dyn Any + Send>) -> Response {
        self.0.metrics.count_panic();
        ApiError::internal().into_response()
    }
}
