//! The decoding mode of a request, and its settings.
//!
//! sglang-router rewrites requests and drops fields it does not know, but forwards `metadata` (strings only),
//! `chat_template_kwargs`, `session_params` and `custom_labels`. So `decode` and the objects with settings of a
//! mode are also read from those, objects also as JSON in a string. The engine declares the objects.

use serde_json::{Value, json};
use wf_api::wire::JsonObject;
use wf_engine::{DecodeMode, DecodeSettings, Setting, SettingKind};

use crate::error::ApiError;
use crate::http::json::parse_inner;

/// Fields that a router forwards.
pub(super) const FORWARDED: [&str; 3] = ["metadata", "session_params", "custom_labels"];

/// True for a field of a forwarded field that is read.
pub(super) fn is_setting(field: &str) -> bool {
    field == "decode" || DecodeMode::setting_objects().contains(&field)
}

/// Takes the settings out of the untyped fields of a request, and adds those in forwarded fields.
pub(crate) fn take_settings(
    mode: Option<String>,
    extra: &mut JsonObject,
    kwargs: Option<&JsonObject>,
) -> Result<DecodeSettings, ApiError> {
    let mut settings = DecodeSettings { mode, ..DecodeSettings::default() };
    for name in DecodeMode::setting_objects() {
        if let Some(value) = extra.remove(name).filter(|value| !value.is_null()) {
            settings.objects.insert(name.to_owned(), read_object(name, value)?);
        }
    }
    add_forwarded(settings, extra, kwargs)
}

/// Adds settings from forwarded fields where the request itself does not set them.
pub(crate) fn add_forwarded(
    mut settings: DecodeSettings,
    extra: &JsonObject,
    kwargs: Option<&JsonObject>,
) -> Result<DecodeSettings, ApiError> {
    let forwarded = FORWARDED.iter().filter_map(|name| extra.get(*name)?.as_object());
    for fields in kwargs.into_iter().chain(forwarded) {
        if let (None, Some(Value::String(mode))) = (&settings.mode, fields.get("decode")) {
            settings.mode = Some(mode.clone());
        }
        for name in DecodeMode::setting_objects() {
            let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { continue };
            if !settings.objects.contains_key(name) {
                let value = match value {
                    Value::String(json) => {
                        parse_inner(json).map_err(|what| ApiError::at(name, &what))?
                    }
                    value => value.clone(),
                };
                settings.objects.insert(name.to_owned(), read_object(name, value)?);
            }
        }
    }
    Ok(settings)
}

fn settings_in(object: &str) -> impl Iterator<Item = &'static Setting> {
    DecodeMode::all_settings().into_iter().filter(move |setting| setting.object == object)
}

/// Checks names and types of settings.
fn read_object(object: &str, value: Value) -> Result<JsonObject, ApiError> {
    let Value::Object(fields) = value else {
        return Err(ApiError::at(object, "must be an object"));
    };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let Some(setting) = settings_in(object).find(|setting| setting.name == name) else {
            let names: Vec<_> = settings_in(object).map(|setting| setting.name).collect();
            let what = format!("unknown field `{name}`: expected one of {}", names.join(", "));
            return Err(ApiError::at(object, &what));
        };
        if let Some(expected) = setting.kind.mismatch(value) {
            return Err(ApiError::at(object, &format!("{name} is {value}: must be {expected}")));
        }
    }
    Ok(fields)
}

/// Returns the JSON schemas of all objects with settings, by name.
pub(crate) fn object_schemas() -> JsonObject {
    let schema = |object| {
        let fields = settings_in(object).map(|setting| {
            let kind = match setting.kind {
                SettingKind::Count => "integer",
                SettingKind::Number => "number",
                SettingKind::Bool => "boolean",
                SettingKind::Name => "string",
            };
            let field = json!({"type": [kind, "null"], "description": setting.help});
            (setting.name.to_owned(), field)
        });
        json!({
            "type": ["object", "null"],
            "description": "Settings of decoding modes",
            "properties": JsonObject::from_iter(fields),
            "additionalProperties": false,
        })
    };
    let objects = DecodeMode::setting_objects().into_iter();
    objects.map(|object| (object.to_owned(), schema(object))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> JsonObject {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn forwarded_fields_are_read_where_the_request_sets_none() {
        let none = DecodeSettings::default();
        let metadata =
            object(r#"{"metadata": {"decode": "diffusion", "diffusion": "{\"threshold\": 0.5}"}}"#);
        let settings = add_forwarded(none, &metadata, None).unwrap();
        assert_eq!(settings.mode.as_deref(), Some("diffusion"));
        assert_eq!(settings.objects["diffusion"]["threshold"], 0.5);

        let lookup = DecodeSettings::of_mode("lookup");
        let kwargs = object(r#"{"decode": "drafted", "draft": {"tokens": 3}}"#);
        let settings = add_forwarded(lookup, &JsonObject::new(), Some(&kwargs)).unwrap();
        let DecodeMode::Drafted(drafting) = settings.resolve(DecodeMode::Autoregressive).unwrap()
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
        let error = add_forwarded(DecodeSettings::default(), &wrong, None).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("diffusion"));
        assert!(error.message.contains("unknown field `treshold`"), "{}", error.message);
    }

    #[test]
    fn settings_are_removed_from_the_untyped_fields_and_checked() {
        let mut extra = object(r#"{"diffusion": {"steps": null}, "draft": null, "x": 1}"#);
        let settings = take_settings(None, &mut extra, None).unwrap();
        assert_eq!(settings.objects.keys().collect::<Vec<_>>(), ["diffusion"]);
        assert_eq!(extra.keys().collect::<Vec<_>>(), ["x"]);
        for (wrong, what) in [
            (r#"{"diffusion": 3}"#, "must be an object"),
            (r#"{"diffusion": {"steps": "many"}}"#, "steps is \"many\": must be a whole number"),
            (r#"{"diffusion": {"treshold": 1}}"#, "unknown field `treshold`"),
        ] {
            let error = take_settings(None, &mut object(wrong), None).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("diffusion"));
            assert!(error.message.contains(what), "{}", error.message);
        }
    }
}
