//! Paths as clients write them: base URLs that end in a slash, or that have `/v1` twice or not at all.

use std::sync::Arc;

use axum::body::Body;
use axum::http::uri::PathAndQuery;
use axum::http::{Request, Uri};
use serde_json::Value;

const VERSION: &str = "/v1";

/// The paths of all described routes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Paths(Arc<[String]>);

impl Paths {
    /// Takes the paths of an OpenAPI document.
    pub(crate) fn new(document: &Value) -> Self {
        let paths = document["paths"].as_object().into_iter().flatten();
        Self(paths.map(|(path, _)| path.clone()).collect())
    }

    /// Gives a request the path of the route that it means, if its own path has none.
    pub(crate) fn correct(&self, mut request: Request<Body>) -> Request<Body> {
        if let Some(path) = self.meant_by(request.uri().path())
            && let Some(uri) = with_path(request.uri(), &path)
        {
            *request.uri_mut() = uri;
        }
        request
    }

    /// Returns the path of the route that `path` means, if it is another.
    fn meant_by(&self, path: &str) -> Option<String> {
        if self.has_route(path) {
            return None;
        }
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let versions = parts.iter().take_while(|part| **part == "v1").count();
        let path =
            |parts: &[&str]| parts.iter().fold(String::new(), |path, part| path + "/" + part);
        let rest = path(&parts[versions..]);
        let candidates = [path(&parts), VERSION.to_owned() + &rest, rest];
        candidates.into_iter().find(|candidate| self.has_route(candidate))
    }

    fn has_route(&self, path: &str) -> bool {
        let matches = |(route, part): (&str, &str)| {
            route == part || route.starts_with('{') && !part.is_empty()
        };
        self.0.iter().any(|route| {
            route.split('/').count() == path.split('/').count()
                && route.split('/').zip(path.split('/')).all(matches)
        })
    }
}

/// Returns `uri` with another path and the same query.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn corrected(path: &str) -> String {
        let paths =
            ["/health", "/v1/chat/completions", "/v1/models", "/v1/models/{model}", "/api/chat"];
        let paths: Value = paths.iter().map(|path| (*path, json!({}))).collect();
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        Paths::new(&json!({"paths": paths})).correct(request).uri().to_string()
    }

    #[test]
    fn slashes_and_versions_may_be_missing_or_doubled() {
        for (path, expected) in [
            ("/v1/chat/completions/", "/v1/chat/completions"),
            ("//v1//chat/completions?x=1", "/v1/chat/completions?x=1"),
            ("/chat/completions", "/v1/chat/completions"),
            ("/v1/v1/chat/completions", "/v1/chat/completions"),
            ("/models/", "/v1/models"),
            ("/v1/models/", "/v1/models"),
            ("/v1/v1/models/demo", "/v1/models/demo"),
            ("/v1/health", "/health"),
            ("/v1/api/chat", "/api/chat"),
        ] {
            assert_eq!(corrected(path), expected, "{path}");
        }
    }

    #[test]
    fn other_paths_stay() {
        for path in [
            "/",
            "//",
            "/v1",
            "/v1/",
            "/v1/models/demo",
            "/v2/models",
            "/page.js?v=1",
            "/v1/nothing",
        ] {
            assert_eq!(corrected(path), path, "{path}");
        }
    }
}
