//! What a request asks for, checked field by field.

use std::time::Instant;

use serde_json::Value;
use wf_client::wire::{Rest, Sampling};
use wf_engine::{Generate, Input, SamplingParams, TokenId, draw_seed};

use crate::app::{App, ServedModel};
use crate::auth::Caller;
use crate::decoding;
use crate::error::ApiError;
use crate::options::Limits;
use crate::structured::Structured;
use crate::tools::Tools;

/// What to write and how to send it.
pub(crate) struct Asked {
    pub(crate) generate: Generate,
    pub(crate) seed: i64,
    pub(crate) choices: u32,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) token_ids: bool,
    pub(crate) progress: bool,
    /// The form of the replies, until it is compiled.
    pub(crate) structured: Option<Structured>,
    /// The tools that may be called.
    pub(crate) tools: Option<Tools>,
}

impl Asked {
    /// Checks what all requests have in common.
    pub(crate) fn new(
        app: &App,
        model: &ServedModel,
        caller: Caller,
        s: Sampling,
    ) -> Result<Self, ApiError> {
        let limits = &app.options.limits;
        let seed = s.seed.unwrap_or_else(|| draw_seed() as i64);
        let (most, least) = (s.max_tokens, s.min_tokens.unwrap_or(0));
        if most.is_some_and(|most| least > most) {
            let message = format!("min_tokens is {least}, more than max_tokens");
            return Err(ApiError::field("min_tokens", message));
        }
        let choices = s.n.unwrap_or(1);
        if choices == 0 || choices > limits.choices {
            let message = format!("n is {choices}: 1 to {} is allowed", limits.choices);
            return Err(ApiError::field("n", message));
        }
        let options = s.stream_options.clone().unwrap_or_default();
        let stream = s.stream.unwrap_or(false);
        if s.stream_options.is_some() && !stream {
            let message = "stream_options are for streams: set stream to true or leave them out";
            return Err(ApiError::field("stream_options", message));
        }
        let generate = Generate {
            sampling: params(model, &s, limits)?,
            decode: decoding::mode(&s, model.decode)?,
            seed: Some(seed.cast_unsigned()),
            show_specials: !s.skip_special_tokens.unwrap_or(true),
            max_tokens: most.map(|most| most as usize),
            min_tokens: least as usize,
            stop: stops(s.stop.map(Vec::from).unwrap_or_default(), limits)?,
            stop_tokens: stop_tokens(model, s.stop_token_ids.unwrap_or_default(), limits)?,
            ignore_eos: s.ignore_eos.unwrap_or(false),
            cache_salt: app.salt(caller, s.cache_salt.as_deref()),
            priority: s.priority.unwrap_or(0),
            deadline: Some(Instant::now() + limits.deadline),
            ..Generate::new(Input::Ids(Vec::new()))
        };
        Ok(Self {
            generate,
            seed,
            choices,
            stream,
            include_usage: options.include_usage.unwrap_or(false),
            token_ids: s.return_token_ids.unwrap_or(false),
            progress: s.return_progress.unwrap_or(false),
            structured: None,
            tools: None,
        })
    }

    /// Refuses prompts that leave no room for what is to be written, with the figures.
    pub(crate) fn check_room(
        &self,
        model: &ServedModel,
        prompts: &[Vec<TokenId>],
        param: &'static str,
    ) -> Result<(), ApiError> {
        let context = model.frontend.context_len();
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        // Room for one token is needed always.
        let wanted = self.generate.max_tokens.unwrap_or(1).max(1);
        if longest + wanted <= context {
            return Ok(());
        }
        let reply = match self.generate.max_tokens {
            Some(most) => format!("and max_tokens is {most}"),
            None => "and a reply needs one more at least".to_owned(),
        };
        let message = format!(
            "the context of this model is {context} tokens: the prompt has {longest}, {reply}"
        );
        let error = ApiError::field(param, message);
        Err(ApiError { code: "context_length_exceeded", ..error })
    }
}

fn params(model: &ServedModel, s: &Sampling, limits: &Limits) -> Result<SamplingParams, ApiError> {
    let defaults = &model.defaults;
    let top_k = match s.top_k {
        None => defaults.top_k,
        Some(-1) => 0,
        Some(k) => usize::try_from(k).map_err(|_| {
            ApiError::field("top_k", format!("top_k is {k}: -1 and 0 (all) or more is allowed"))
        })?,
    };
    let params = SamplingParams {
        temperature: s.temperature.unwrap_or(defaults.temperature),
        top_k,
        top_p: s.top_p.unwrap_or(defaults.top_p),
        min_p: s.min_p.unwrap_or(defaults.min_p),
        repetition_penalty: s.repetition_penalty.unwrap_or(defaults.repetition_penalty),
        presence_penalty: s.presence_penalty.unwrap_or(0.0),
        frequency_penalty: s.frequency_penalty.unwrap_or(0.0),
        logit_bias: biases(s, limits)?,
        ..SamplingParams::default()
    };
    Ok(params)
}

fn biases(s: &Sampling, limits: &Limits) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let Some(biases) = &s.logit_bias else { return Ok(Vec::new()) };
    check_count("logit_bias", biases.len(), limits.biases)?;
    let parse = |(token, bias): (&String, &f32)| match token.parse() {
        Ok(token) => Ok((token, *bias)),
        Err(_) => {
            let message = "logit_bias: its names must be token numbers, such as \"42\"";
            Err(ApiError::field("logit_bias", message))
        }
    };
    biases.iter().map(parse).collect()
}

fn stops(stops: Vec<String>, limits: &Limits) -> Result<Vec<String>, ApiError> {
    check_count("stop", stops.len(), limits.stops)?;
    if stops.iter().any(String::is_empty) {
        return Err(ApiError::field("stop", "stop: an empty text would end every reply at once"));
    }
    if stops.iter().any(|stop| stop.len() > limits.stop_bytes) {
        let message = format!("stop: texts of at most {} bytes are allowed", limits.stop_bytes);
        return Err(ApiError::field("stop", message));
    }
    Ok(stops)
}

fn stop_tokens(
    model: &ServedModel,
    tokens: Vec<TokenId>,
    limits: &Limits,
) -> Result<Vec<TokenId>, ApiError> {
    check_count("stop_token_ids", tokens.len(), limits.biases)?;
    let vocab_len = model.frontend.engine().vocab_len();
    match tokens.iter().find(|&&token| token as usize >= vocab_len) {
        Some(token) => {
            let last = vocab_len - 1;
            let message = format!("stop_token_ids: {token} is not a token: 0 to {last} are");
            Err(ApiError::field("stop_token_ids", message))
        }
        None => Ok(tokens),
    }
}

/// Refuses lists that are too long.
pub(crate) fn check_count(param: &str, count: usize, most: usize) -> Result<(), ApiError> {
    if count <= most {
        return Ok(());
    }
    Err(ApiError::field(param, format!("{param} has {count} entries: at most {most} are allowed")))
}

/// Fields that are read by nobody: labels, hints, and what gateways add of their own accord.
const IGNORED: [&str; 24] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
    "reasoning_effort",
    "verbosity",
    "moderation",
    "parallel_tool_calls",
    "separate_reasoning",
    "stream_reasoning",
    "session_params",
    "rid",
    "no_logs",
    "log_metrics",
    "custom_labels",
    "background",
    "conversation_id",
    "cache_prompt",
    "timings_per_token",
];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [(&str, &[&str]); 21] = [
    ("tools", &["[]"]),
    ("tool_choice", &[r#""none""#, r#""auto""#]),
    ("functions", &["[]"]),
    ("function_call", &[r#""none""#, r#""auto""#]),
    ("modalities", &[r#"["text"]"#]),
    ("audio", &[]),
    ("web_search_options", &[]),
    ("best_of", &["1"]),
    ("suffix", &[r#""""#]),
    ("structural_tag", &[]),
    ("use_beam_search", &["false"]),
    ("truncate_prompt_tokens", &[]),
    ("prompt_logprobs", &[]),
    ("return_hidden_states", &["false"]),
    ("return_entropy", &["false"]),
    ("return_bytes", &["false"]),
    ("return_text_in_logprobs", &["false"]),
    ("no_stop_trim", &["false"]),
    ("include_stop_str_in_output", &["false"]),
    ("lora_path", &[]),
    ("chat_template", &[]),
];

/// A field that would change the answer, with the values that would not.
pub(crate) type RefusedField = (&'static str, &'static [&'static str]);

/// Decides on the fields that have no type: ignored, harmless as they are, or refused by name.
pub(crate) fn check_rest(rest: &Rest) -> Result<(), ApiError> {
    check_rest_by(&IGNORED, &REFUSED, rest)
}

/// The same by other lists than OpenAI's.
pub(crate) fn check_rest_by(
    ignored: &[&str],
    refused: &[RefusedField],
    rest: &Rest,
) -> Result<(), ApiError> {
    for (name, value) in rest {
        if value.is_null() || ignored.contains(&name.as_str()) {
            continue;
        }
        let Some((_, harmless)) = refused.iter().find(|(field, _)| field == name) else {
            let message = format!("{name:?} is not a field of this request");
            return Err(ApiError { code: "unknown_parameter", ..ApiError::field(name, message) });
        };
        let is_harmless =
            |text: &&str| serde_json::from_str(text).is_ok_and(|same: Value| same == *value);
        if !harmless.iter().any(is_harmless) {
            let message = match harmless {
                [] => format!("{name} is not supported"),
                harmless => format!("{name} is not supported but as {}", harmless.join(" or ")),
            };
            return Err(ApiError::unsupported(name, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(json: &str) -> Result<(), (Option<String>, &'static str)> {
        check_rest(&serde_json::from_str(json).unwrap()).map_err(|e| (e.param, e.code))
    }

    #[test]
    fn what_does_not_matter_passes_and_what_does_is_named() {
        assert_eq!(rest(r#"{"user": "u", "metadata": {"a": "b"}, "tools": null}"#), Ok(()));
        assert_eq!(rest(r#"{"tools": [], "modalities": ["text"]}"#), Ok(()));
        let refused = |name: &str, code| Err((Some(name.to_owned()), code));
        let unsupported = "unsupported_parameter";
        assert_eq!(rest(r#"{"tools": [{}]}"#), refused("tools", unsupported));
        assert_eq!(rest(r#"{"best_of": 2}"#), refused("best_of", unsupported));
        assert_eq!(rest(r#"{"n_discard": -1}"#), refused("n_discard", "unknown_parameter"));
        assert_eq!(rest(r#"{"temprature": 1}"#), refused("temprature", "unknown_parameter"));
    }

    #[test]
    fn harmless_values_are_json() {
        for text in REFUSED.iter().flat_map(|(_, harmless)| *harmless) {
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }
}
