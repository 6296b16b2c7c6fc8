//! Entries for fuzz targets, which are outside of this crate.

use std::convert::Infallible;
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{Request, header};
use futures_util::stream;
use tokio::runtime::Builder;

use crate::access::{Caller, Peer};
use crate::app::App;
use crate::dialects;
use crate::error::ApiError;
use crate::generation::{Addressed, Arrival};
use crate::http::form::Form;
use crate::http::routes::Reader;
use crate::options::Limits;

/// Reads the body of a request in one of the dialects, with everything that happens before tokens are computed.
/// Returns the message of an error.
pub fn read_request(app: &App, dialect: u8, body: &[u8]) -> Result<(), String> {
    static READERS: OnceLock<Vec<Reader>> = OnceLock::new();
    let readers = READERS.get_or_init(|| dialects::routes().readers);
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(Caller::new(None, Peer::default()));
    let reader = readers[usize::from(dialect) % readers.len()];
    let cx = Arrival::new(app, &request).and_then(|arrival| arrival.for_model(None));
    let cx = cx.and_then(Addressed::with_loaded_model);
    let read = cx.and_then(|cx| reader(&cx, body));
    read.map_err(|error| error.message)
}

/// Reads a form that arrives in these pieces. Returns the names and contents of its parts, or the message of an error.
pub fn read_form<'a>(
    content_type: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    max_len: u64,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let pieces = pieces.into_iter().map(|piece| Ok::<_, Infallible>(piece.to_vec()));
    let body = Body::from_stream(stream::iter(pieces.collect::<Vec<_>>()));
    let request = Request::builder().header(header::CONTENT_TYPE, content_type).body(body);
    let request = request.map_err(|error| error.to_string())?;
    let read = async {
        let mut form = Form::new(request, &Limits::default(), max_len)?;
        let mut parts = Vec::new();
        while let Some(mut part) = form.next().await? {
            let (name, mut content) = (part.name().to_owned(), Vec::new());
            while let Some(chunk) = part.chunk().await? {
                content.extend_from_slice(&chunk);
            }
            parts.push((name, content));
        }
        Ok(parts)
    };
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(read).map_err(|error: ApiError| error.message)
}
