//! The chat page, a single HTML document.
//!
//! It is built from `web/`. The content security policy names its script and styles by digest, so that nothing
//! else runs in it, whatever a model generates. The page itself needs no key: it asks for one, and sends it with
//! its requests.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest, Sha256};

use crate::app::App;

const PLAIN: &[u8] = include_bytes!("../../assets/page.html");
const PACKED: &[u8] = include_bytes!("../../assets/page.html.gz");
/// Entity tags of both encodings.
static TAGS: LazyLock<[String; 2]> = LazyLock::new(|| [PLAIN, PACKED].map(tag));
const APP: &str = include_str!("../../assets/page.webmanifest");
const POLICY: &str = include_str!("../../assets/page.csp");

/// Serves the page, or redirects to `/docs` if it is disabled.
pub(super) async fn page(State(app): State<App>, headers: HeaderMap) -> Response {
    if !app.options.page {
        return Redirect::temporary("/docs").into_response();
    }
    let policy = policy(&app.options.mcp_servers);
    let is_packed = accepts_gzip(&headers);
    let tag = &TAGS[usize::from(is_packed)];
    let fixed = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The browser checks for a new version each time.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
        (header::ETAG, tag.as_str()),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
        // Links in messages are not resolved before somebody follows them.
        (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    ];
    if is_known(&headers, tag) {
        return (StatusCode::NOT_MODIFIED, fixed).into_response();
    }
    match is_packed {
        true => (fixed, [(header::CONTENT_ENCODING, "gzip")], PACKED).into_response(),
        false => (fixed, PLAIN).into_response(),
    }
}

/// Returns the policy of the page, which may connect to its own server and to these.
fn policy(mcp_servers: &[String]) -> String {
    let own = "connect-src 'self'";
    let all = mcp_servers.iter().fold(own.to_owned(), |all, server| all + " " + server);
    POLICY.replace(own, &all)
}

/// Path of the manifest, with which browsers install the page as an app.
pub(super) const MANIFEST: &str = "/manifest.webmanifest";

/// Serves the manifest, unless the page is disabled.
pub(super) async fn manifest(State(app): State<App>) -> Response {
    if !app.options.page {
        return StatusCode::NOT_FOUND.into_response();
    }
    let fixed = [
        (header::CONTENT_TYPE, "application/manifest+json"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (fixed, APP).into_response()
}

fn tag(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Returns `true` if the browser accepts gzip. A weight of 0 means that it does not.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|part| {
        let (name, weight) = part.split_once(';').unwrap_or((part, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse().unwrap_or(1.0);
        name.trim().eq_ignore_ascii_case("gzip") && weight > 0.0
    })
}

/// Returns `true` if the browser has this version already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = values.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
    known.any(|one| one.trim().trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(value: &'static str) -> bool {
        accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]))
    }

    #[test]
    fn gzip_is_for_browsers_that_accept_it() {
        for yes in ["gzip", "deflate, GZIP", "br;q=1, gzip;q=0.5", "gzip; q=0.1"] {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0", "xgzip", "identity"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn the_manifest_is_that_of_the_page() {
        let manifest: serde_json::Value = serde_json::from_str(APP).unwrap();
        assert_eq!(manifest["start_url"], "/");
        assert!(manifest["icons"][0]["src"].as_str().unwrap().starts_with("data:image/svg+xml,"));
        let page = std::str::from_utf8(PLAIN).unwrap();
        assert!(page.contains(&format!("<link rel=\"manifest\" href=\"{MANIFEST}\"")));
        assert!(POLICY.contains("manifest-src 'self'"));
    }

    #[test]
    fn the_policy_lists_the_mcp_servers_and_no_others() {
        assert_eq!(policy(&[]), POLICY);
        let two = policy(&["http://a:1/mcp".to_owned(), "https://b".to_owned()]);
        assert!(two.contains("; connect-src 'self' http://a:1/mcp https://b; "), "{two}");
        assert_eq!(two.replace(" http://a:1/mcp https://b", ""), POLICY);
    }

    #[test]
    fn the_page_fetches_nothing_from_elsewhere() {
        let page = std::str::from_utf8(PLAIN).unwrap();
        let head = page.split("<style>").next().unwrap();
        assert!(!head.contains("src=") && !head.contains("href=\"http"));
        assert!(POLICY.starts_with("default-src 'none'; script-src 'sha256-"));
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("http"));
    }
}
