//! Suggestions for misspelled fields.

use serde_json::Value;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.9;

/// Adds a suggestion to the error of an unknown field: the dialect's own name for it, or the most similar field.
pub(super) fn add_suggestion<T: ToSchema>(
    mut error: ApiError,
    aliases: &[(&str, &str)],
) -> ApiError {
    let (Some(name), "unknown_parameter") = (&error.param, error.code) else { return error };
    let alias = aliases.iter().find(|(ours, _)| ours == name).map(|(_, theirs)| (*theirs).into());
    let similarity = |field: &String| strsim::jaro_winkler(name, field);
    let similar = || {
        let fields = field_names::<T>().into_iter();
        let best = fields.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
        best.filter(|best| similarity(best) >= MIN_SIMILARITY)
    };
    if let Some(best) = alias.or_else(similar) {
        error.message += &format!("; did you mean {best:?}?");
    }
    error
}

/// Lists the fields of a request type, flattened ones included.
fn field_names<T: ToSchema>() -> Vec<String> {
    let mut types = Vec::new();
    T::schemas(&mut types);
    let types = types.into_iter().map(|(name, schema)| (name, to_value(schema)));
    let mut names = Vec::new();
    collect(&to_value(T::schema()), &types.collect::<Vec<_>>(), &mut names);
    names
}

fn to_value(schema: impl serde::Serialize) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn collect(schema: &Value, types: &[(String, Value)], names: &mut Vec<String>) {
    let target = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    if let Some((_, schema)) = types.iter().find(|(name, _)| Some(name.as_str()) == target) {
        collect(schema, types, names);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect(part, types, names);
    }
    names.extend(schema["properties"].as_object().into_iter().flat_map(|all| all.keys().cloned()));
}

#[cfg(test)]
mod tests {
    use wf_api::wire::ChatRequest;

    use super::*;

    #[test]
    fn misspelled_fields_get_a_suggestion() {
        let message = |name: &str| {
            let error = ApiError::field(name, format!("unknown field {name:?}"));
            let error = ApiError { code: "unknown_parameter", ..error };
            add_suggestion::<ChatRequest>(error, &[("n_predict", "max_tokens")]).message
        };
        let expected = r#"unknown field "temprature"; did you mean "temperature"?"#;
        assert_eq!(message("temprature"), expected);
        assert!(message("mesages").ends_with(r#"did you mean "messages"?"#));
        assert!(message("max_token").ends_with(r#"did you mean "max_tokens"?"#));
        assert!(message("n_predict").ends_with(r#"did you mean "max_tokens"?"#));
        assert_eq!(message("n_discard"), r#"unknown field "n_discard""#);
    }
}
