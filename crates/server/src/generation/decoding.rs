//! The decoding mode of a request.
//!
//! sglang-router rewrites requests and drops fields it does not know, but forwards `metadata` (strings only),
//! `chat_template_kwargs`, `session_params` and `custom_labels`. So `decode` and the objects with settings of a
//! mode are also read from those, objects also as JSON in a string.

use serde_json::Value;
use wf_api::wire::{JsonObject, Sampling};
use wf_engine::{DecodeMode, DecodeSettings};

use crate::error::ApiError;

/// Fields that a router forwards.
const FORWARDED: [&str; 3] = ["metadata", "session_params", "custom_labels"];

/// Reads decoding settings from forwarded fields where the request itself does not set them.
pub(crate) fn read_forwarded(
    sampling: &mut Sampling,
    extra: &JsonObject,
    kwargs: Option<&JsonObject>,
) -> Result<(), ApiError> {
    let forwarded = FORWARDED.iter().filter_map(|name| extra.get(*name)?.as_object());
    for fields in kwargs.into_iter().chain(forwarded) {
        if let (None, Some(Value::String(mode))) = (&sampling.decode, fields.get("decode")) {
            sampling.decode = Some(mode.clone());
        }
        for name in DecodeMode::setting_objects() {
            if let Some(value) = fields.get(name) {
                set_if_absent(sampling, name, value)
                    .map_err(|error| ApiError::at(name, &error.to_string()))?;
            }
        }
    }
    Ok(())
}

/// Sets a field of the sampling parameters by name.
fn set_if_absent(sampling: &mut Sampling, name: &str, value: &Value) -> serde_json::Result<()> {
    let mut fields = serde_json::to_value(&*sampling)?;
    if fields.get(name).is_none_or(Value::is_null) {
        fields[name] = match value {
            Value::String(json) => serde_json::from_str(json)?,
            value => value.clone(),
        };
        *sampling = serde_json::from_value(fields)?;
    }
    Ok(())
}

/// Returns the mode that a request sets, or else `default`.
pub(crate) fn mode(sampling: &Sampling, default: DecodeMode) -> Result<DecodeMode, ApiError> {
    let mut settings =
        DecodeSettings { mode: sampling.decode.clone(), ..DecodeSettings::default() };
    let fields = serde_json::to_value(sampling).unwrap_or_default();
    for name in DecodeMode::setting_objects() {
        if let Some(object) = fields.get(name).and_then(Value::as_object) {
            settings.objects.insert(name.to_owned(), object.clone());
        }
    }
    settings.resolve(default).map_err(|error| ApiError::field("decode", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> JsonObject {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn forwarded_fields_are_read_where_the_request_sets_none() {
        let mut sampling = Sampling::default();
        let metadata =
            object(r#"{"metadata": {"decode": "diffusion", "diffusion": "{\"threshold\": 0.5}"}}"#);
        read_forwarded(&mut sampling, &metadata, None).unwrap();
        assert_eq!(sampling.decode.as_deref(), Some("diffusion"));
        assert_eq!(sampling.diffusion.as_ref().unwrap().threshold, Some(0.5));

        let mut sampling = Sampling { decode: Some("lookup".into()), ..Sampling::default() };
        let kwargs = object(r#"{"decode": "drafted", "draft": {"tokens": 3}}"#);
        read_forwarded(&mut sampling, &JsonObject::new(), Some(&kwargs)).unwrap();
        let DecodeMode::Drafted(drafting) = mode(&sampling, DecodeMode::Autoregressive).unwrap()
        else {
            panic!("drafts");
        };
        assert_eq!(
            (drafting.model, drafting.max_tokens),
            (false, 3),
            "the request's own field counts"
        );
    }

    #[test]
    fn an_error_in_a_forwarded_field_is_named() {
        let wrong = object(r#"{"metadata": {"diffusion": "{\"treshold\": 1}"}}"#);
        let error = read_forwarded(&mut Sampling::default(), &wrong, None).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("diffusion"));
        assert!(error.message.contains("unknown field `treshold`"), "{}", error.message);
    }
}
