//! The OpenAPI document at `/openapi.json`, and `/docs`, a page that shows it without fetching anything.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

use crate::app::App;
use crate::http::routes::fields;

/// Allows the page nothing but its own style.
const CSP: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                   form-action 'none'; frame-ancestors 'none'";

/// Serves the document, which is made from the routes themselves.
pub(super) fn routes(document: Value) -> Router<App> {
    let document = Arc::new(document);
    let json = Arc::clone(&document);
    let page = async move |State(app): State<App>| page(&app, &document);
    Router::new()
        .route("/openapi.json", get(async move || Json(Value::clone(&json))))
        .route("/docs", get(page))
}

fn page(app: &App, document: &Value) -> Response {
    let model = app.models().map_or("loading", |models| models.listing(0).name());
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, html(document, model)).into_response()
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;\
padding:0 1rem;color-scheme:light dark}code,pre{font-family:ui-monospace,monospace}\
pre{overflow:auto;padding:.8rem;border:1px solid #8886;border-radius:.4rem}\
h2{margin:2rem 0 .3rem;font-size:1.1rem}h3{margin:1.2rem 0 .2rem;font-size:1rem}\
.method{display:inline-block;min-width:3.2rem;font-weight:700;color:#08c}p{margin:.2rem 0}\
table{border-collapse:collapse;width:100%}td{padding:.15rem .6rem .15rem 0;vertical-align:top}\
td:first-child{white-space:nowrap}";

fn html(document: &Value, model: &str) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>WrinkleFree API</title><style>{STYLE}</style>\
         <h1>WrinkleFree API</h1><p>Model: <code>{}</code>. The same as a document for programs: \
         <a href=\"openapi.json\">openapi.json</a>.</p><pre>curl http://HOST/v1/chat/completions \
         -H 'content-type: application/json' \\\n  -d '{{\"messages\": [{{\"role\": \"user\", \
         \"content\": \"Tell me a story\"}}]}}'</pre>",
        escape(model)
    );
    let mut tag = "";
    for (path, method, operation) in operations(document) {
        let own = operation["tags"][0].as_str().unwrap_or_default();
        // Writing to a string cannot fail.
        if own != tag {
            tag = own;
            let _ = write!(page, "<h2>{}</h2>", escape(tag));
        }
        let summary = operation["summary"].as_str().unwrap_or_default();
        let _ = write!(
            page,
            "<h3><span class=\"method\">{}</span> <code>{}</code></h3><p>{}</p>",
            method.to_uppercase(),
            escape(path),
            escape(summary)
        );
        page += &table(document, operation);
    }
    page
}

/// Lists all operations, grouped by tag.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            all.push((path.as_str(), method.as_str(), operation));
        }
    }
    let tag = |operation: &Value| operation["tags"][0].as_str().unwrap_or_default().to_owned();
    all.sort_by_key(|(path, _, operation)| (tag(operation), path.len()));
    all
}

/// Renders the fields of a request as a table.
fn table(document: &Value, operation: &Value) -> String {
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let row = |(name, field): (&str, &Value)| {
        let text = field["description"].as_str().unwrap_or_default();
        format!("<tr><td><code>{}</code><td>{}</tr>", escape(name), escape(text))
    };
    let rows: String = fields(document, body).into_iter().map(row).collect();
    if rows.is_empty() { rows } else { format!("<table>{rows}</table>") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        crate::routes::api().merge(crate::dialects::routes()).into_parts().1
    }

    #[test]
    fn every_operation_and_field_is_on_the_page() {
        let page = html(&document(), "<m>");
        for word in ["/v1/chat/completions", "/tokenize", "temperature", "cache_salt", "&lt;m&gt;"]
        {
            assert!(page.contains(word), "{word}");
        }
        assert!(!page.contains("<m>") && !page.contains("<script"));
    }

    #[test]
    fn every_reference_has_a_target() {
        fn walk(value: &Value, document: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(path)) = fields.get("$ref") {
                        let pointer = path.strip_prefix('#').expect("a local reference");
                        assert!(document.pointer(pointer).is_some(), "{path}");
                    }
                    fields.values().for_each(|field| walk(field, document));
                }
                Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
                _ => {}
            }
        }
        let document = document();
        walk(&document, &document);
        assert!(document["paths"].as_object().is_some_and(|paths| paths.len() > 15));
    }
}
