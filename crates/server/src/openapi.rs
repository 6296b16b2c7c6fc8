//! The description of the API, made from the routes themselves.

use std::sync::OnceLock;

use serde_json::Value;

use crate::routes_of;

/// The description, as JSON.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut document = routes_of().into_openapi();
        document.info.title = "WrinkleFree".to_owned();
        document.info.version = env!("CARGO_PKG_VERSION").to_owned();
        document.info.description =
            Some("Runs 1.58-bit language models. The same request gives the same answer.".into());
        serde_json::to_value(&document).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
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
        walk(document(), document());
        assert!(document()["paths"].as_object().is_some_and(|paths| paths.len() > 15));
    }
}
