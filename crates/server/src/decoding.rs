//! How a reply is to be decoded: from the fields of a request, or from those that survive a router.
//!
//! sglang-router writes requests anew and drops fields it does not know, but passes `metadata` (texts
//! only), `chat_template_kwargs`, `session_params` and `custom_labels` on. So `decode`, `diffusion` and
//! `draft` may stand in those as well, the last two as objects or as JSON in a text.

use serde::de::DeserializeOwned;
use serde_json::Value;
use wf_client::wire::{DiffusionSettings, DraftSettings, Rest, Sampling};
use wf_engine::{DecodeMode, DecodeSettings};

use crate::error::ApiError;

/// Fields that survive a router.
const CARRIERS: [&str; 3] = ["metadata", "session_params", "custom_labels"];

/// Takes `decode`, `diffusion` and `draft` out of carriers where the request itself does not have them.
pub(crate) fn read_carried(
    sampling: &mut Sampling,
    rest: &Rest,
    kwargs: Option<&Rest>,
) -> Result<(), ApiError> {
    let carried = CARRIERS.iter().filter_map(|name| rest.get(*name)?.as_object());
    for fields in kwargs.into_iter().chain(carried) {
        if let (None, Some(Value::String(mode))) = (&sampling.decode, fields.get("decode")) {
            sampling.decode = Some(mode.clone());
        }
        if sampling.diffusion.is_none() {
            sampling.diffusion = carried_object(fields, "diffusion")?;
        }
        if sampling.draft.is_none() {
            sampling.draft = carried_object(fields, "draft")?;
        }
    }
    Ok(())
}

fn carried_object<T: DeserializeOwned>(fields: &Rest, name: &str) -> Result<Option<T>, ApiError> {
    let parsed = match fields.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(value) => serde_json::from_value(value.clone()),
    };
    parsed.map(Some).map_err(|error| ApiError::field(name, format!("{name}: {error}")))
}

/// The mode a request asks for, where `usual` is the server's own.
pub(crate) fn mode(sampling: &Sampling, usual: DecodeMode) -> Result<DecodeMode, ApiError> {
    let blocks = sampling.diffusion.clone().unwrap_or_default();
    let DiffusionSettings { block_size, sub_block_size, rule, threshold, .. } = blocks;
    let DraftSettings { tokens, adapt } = sampling.draft.clone().unwrap_or_default();
    let settings = DecodeSettings {
        mode: sampling.decode.clone(),
        block_len: block_size,
        sub_block_len: sub_block_size,
        rule,
        threshold,
        edit_threshold: blocks.edit_threshold,
        steps: blocks.steps,
        whole_blocks: blocks.whole_blocks,
        reuse: blocks.reuse,
        preview: blocks.preview,
        draft_tokens: tokens,
        draft_adapts: adapt,
    };
    settings.mode(usual).map_err(|error| ApiError::field("decode", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(json: &str) -> Rest {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_a_router_passes_on_is_read_where_the_request_is_silent() {
        let mut sampling = Sampling::default();
        let metadata =
            rest(r#"{"metadata": {"decode": "diffusion", "diffusion": "{\"threshold\": 0.5}"}}"#);
        read_carried(&mut sampling, &metadata, None).unwrap();
        assert_eq!(sampling.decode.as_deref(), Some("diffusion"));
        assert_eq!(sampling.diffusion.as_ref().unwrap().threshold, Some(0.5));

        let mut sampling = Sampling { decode: Some("lookup".into()), ..Sampling::default() };
        let kwargs = rest(r#"{"decode": "drafted", "draft": {"tokens": 3}}"#);
        read_carried(&mut sampling, &Rest::new(), Some(&kwargs)).unwrap();
        let DecodeMode::Drafted(drafting) = mode(&sampling, DecodeMode::Autoregressive).unwrap()
        else {
            panic!("drafts");
        };
        assert_eq!((drafting.model, drafting.most), (false, 3), "the request's own word counts");
    }

    #[test]
    fn a_carried_mistake_is_named() {
        let wrong = rest(r#"{"metadata": {"diffusion": "{\"treshold\": 1}"}}"#);
        let error = read_carried(&mut Sampling::default(), &wrong, None).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("diffusion"));
        assert!(error.message.contains("unknown field `treshold`"), "{}", error.message);
    }
}
