//! Ids of requests: the client's `x-request-id` if it is plain, or else a random one.

use axum::body::Body;
use axum::http::{Extensions, HeaderName, HeaderValue, Request};
use tower_http::request_id::{MakeRequestId, RequestId};

/// Header that carries the id in both directions.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

const MAX_LEN: usize = 128;

/// Removes an id that is empty, too long, or has characters beyond letters, digits and `-_.:/+=`.
pub(crate) fn drop_invalid(mut request: Request<Body>) -> Request<Body> {
    let is_plain = |c: &u8| c.is_ascii_alphanumeric() || b"-_.:/+=".contains(c);
    let is_valid = |id: &[u8]| (1..=MAX_LEN).contains(&id.len()) && id.iter().all(is_plain);
    if request.headers().get(HEADER).is_some_and(|id| !is_valid(id.as_bytes())) {
        request.headers_mut().remove(HEADER);
    }
    request
}

/// Makes ids for requests that have none.
#[derive(Clone, Copy)]
pub(crate) struct RandomId;

impl MakeRequestId for RandomId {
    fn make_request_id<B>(&mut self, _: &Request<B>) -> Option<RequestId> {
        HeaderValue::from_str(&random()).ok().map(RequestId::new)
    }
}

/// Returns 32 random hexadecimal digits.
pub(crate) fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

pub(crate) fn of(extensions: &Extensions) -> String {
    let id = extensions.get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    id.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(id: &[u8]) -> bool {
        let value = HeaderValue::from_bytes(id).unwrap();
        let request = Request::builder().header(HEADER, value).body(Body::empty()).unwrap();
        drop_invalid(request).headers().contains_key(HEADER)
    }

    #[test]
    fn plain_ids_are_kept_and_others_replaced() {
        assert!(keeps(b"abc-1.2_3") && keeps(&[b'x'; MAX_LEN]));
        for other in [&b"a b"[..], b"", b"\xff", b"a\tb", b"<script>", &[b'x'; MAX_LEN + 1]] {
            assert!(!keeps(other), "{other:?}");
        }
        assert_eq!(random().len(), 32);
        assert_ne!(random(), random());
    }
}
