//! Suggestions for misspelled fields.

use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::routes::{Routes, fields};

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.9;

/// Adds a suggestion to the error of an unknown field: the dialect's own name for it, or the most similar field.
pub(super) fn add_suggestion<T: ToSchema>(
    mut error: ApiError,
    aliases: &[(&str, &str)],
) -> ApiError {
    let (Some(name), "unknown_parameter") = (&error.param, error.code) else { return error };
    let alias = aliases.iter().find(|(ours, _)| ours == name).map(|(_, theirs)| (*theirs).into());
    let similar = || {
        let (_, document) = Routes::new::<T>("").into_parts();
        let fields = fields(&document, &document["components"]["schemas"][&*T::name()]);
        let fields = fields.iter().map(|(field, _)| (strsim::jaro_winkler(name, field), *field));
        let best = fields.max_by(|(a, _), (b, _)| a.total_cmp(b));
        best.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
            .map(|(_, name)| name.to_owned())
    };
    if let Some(best) = alias.or_else(similar) {
        error.message += &format!("; did you mean {best:?}?");
    }
    error
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
        assert!(message("difusion").ends_with(r#"did you mean "diffusion"?"#));
        assert!(message("mesages").ends_with(r#"did you mean "messages"?"#));
        assert!(message("max_token").ends_with(r#"did you mean "max_tokens"?"#));
        assert!(message("n_predict").ends_with(r#"did you mean "max_tokens"?"#));
        assert_eq!(message("n_discard"), r#"unknown field "n_discard""#);
    }
}
