//! The chat page, as a browser fetches it.

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use tower::ServiceExt;
use wf_server::{Keys, ServerOptions, router};

use crate::support::{app, bytes, frontend, get, options};

async fn fetch(
    options: ServerOptions,
    fields: &[(&'static str, &str)],
) -> (u16, HeaderMap, Vec<u8>) {
    let mut request = get("/");
    for (name, value) in fields {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let response = router(&app(options, frontend())).oneshot(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, bytes(response).await)
}

#[tokio::test]
async fn the_page_comes_with_a_policy_that_allows_only_itself() {
    let (status, headers, body) = fetch(options(), &[]).await;
    assert_eq!(status, 200);
    assert!(String::from_utf8(body).unwrap().starts_with("<!doctype html>"));
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let policy = headers["content-security-policy"].to_str().unwrap();
    for rule in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.split("; ").any(|one| one == rule), "{policy}");
    }
}

#[tokio::test]
async fn bytes_that_a_browser_has_are_not_sent_again() {
    let mut tags = Vec::new();
    for encoding in ["identity", "gzip, deflate, br"] {
        let accepted = ("accept-encoding", encoding);
        let (_, headers, body) = fetch(options(), &[accepted]).await;
        assert_eq!(headers.get("content-encoding").is_some(), encoding != "identity");
        assert_eq!(body.starts_with(&[0x1f, 0x8b]), encoding != "identity");
        let tag = headers["etag"].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", W/{tag}")] {
            let (status, headers, body) =
                fetch(options(), &[accepted, ("if-none-match", &known)]).await;
            assert_eq!((status, body.len()), (304, 0));
            assert_eq!(headers["etag"], tag.as_str());
        }
        let (status, ..) = fetch(options(), &[accepted, ("if-none-match", "\"other\"")]).await;
        assert_eq!(status, 200);
        tags.push(tag);
    }
    assert_ne!(tags[0], tags[1], "different bytes have different names");
}

#[tokio::test]
async fn the_page_needs_no_key_but_the_right_host() {
    let locked = || ServerOptions { keys: Keys::new(["secret"]), ..options() };
    assert_eq!(fetch(locked(), &[]).await.0, 200);
    assert_eq!(fetch(locked(), &[("host", "evil.example")]).await.0, 421);
    assert_eq!(fetch(locked(), &[("origin", "http://evil.example")]).await.0, 403);
}

#[tokio::test]
async fn where_the_page_is_turned_off_the_description_is_shown() {
    let off = ServerOptions { page: false, ..options() };
    let (status, headers, _) = fetch(off.clone(), &[]).await;
    assert_eq!((status, headers["location"].to_str().unwrap()), (307, "/docs"));
    let request = Request::head("/").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router(&app(off, frontend())).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 307);
}
