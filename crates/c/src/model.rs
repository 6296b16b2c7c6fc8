//! Requests and results as JSON.

use serde_json::{Map, Value, json};
use wf::local::{Error, Keyword, LocalModel};
use wf_engine::{GenerationRequest, PromptInput, TextEvent};

/// Reads options: a JSON object, or nothing.
pub(crate) fn options(text: Option<&str>) -> Result<Vec<Keyword>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("options are not a JSON object: {error}"))?;
    let given = object.into_iter().filter(|(_, value)| !value.is_null());
    Ok(given.map(|(name, value)| Keyword { values: values(&name, value), name }).collect())
}

/// Returns values as on the command line.
fn values(name: &str, value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.into_iter().map(text).collect(),
        Value::Object(biases) if name == "logit_bias" => {
            biases.into_iter().map(|(id, bias)| format!("{id}={bias}")).collect()
        }
        one => vec![text(one)],
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        // Numbers, and JSON schemas.
        other => other.to_string(),
    }
}

/// Completes a prompt or a conversation. `on_text` takes each piece of the answer and returns `false` to cancel the rest.
pub(crate) fn complete(
    model: &LocalModel,
    input: PromptInput,
    options: Option<&str>,
    mut on_text: impl FnMut(&str) -> bool,
) -> Result<String, String> {
    let request = model.completion(&self::options(options)?).map_err(message)?;
    let request = GenerationRequest { input, ..request };
    let mut stream = model.frontend().generate(request).map_err(message)?;
    let (mut answer, mut thinking) = (String::new(), String::new());
    let mut finish_reason = "cancelled";
    for event in stream.by_ref() {
        match event.map_err(message)? {
            TextEvent::Text { text, reasoning, .. } => {
                answer += &text;
                thinking += &reasoning;
                // The rest is cancelled when the stream is dropped.
                if !text.is_empty() && !on_text(&text) {
                    break;
                }
            }
            TextEvent::Done(finish) => finish_reason = finish.reason.name(),
            _ => {}
        }
    }
    let result = json!({
        "text": answer,
        "reasoning": thinking,
        "ids": stream.ids(),
        "prompt_ids": stream.prompt_ids(),
        "finish_reason": finish_reason,
        "seed": stream.seed(),
        "cached_tokens": stream.timings().cached_tokens,
    });
    Ok(result.to_string())
}

/// Embeds a text.
pub(crate) fn embed(
    model: &LocalModel,
    text: &str,
    options: Option<&str>,
) -> Result<Vec<f32>, String> {
    let mut pending = model.embed(&[text.to_owned()], &self::options(options)?).map_err(message)?;
    let vector = pending.pop().ok_or("no vector was computed")?;
    vector.vector_blocking().map_err(message)
}

/// Returns the message of an error, as the command line prints it.
pub(crate) fn message(error: impl Into<Error>) -> String {
    error.into().to_string()
}
