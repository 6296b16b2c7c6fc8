//! Rotary embeddings, as files describe them.

use wf_core::{Rope, RotaryPairs};

use super::keys::{Key, Keys};
use crate::config::settings::Settings;
use crate::error::{Error, quote_safely};

const THETA: Key = Key::new("rope.freq_base", "rope_theta");
const SCALING: Key = Key::gguf("rope.scaling.type");
const PARTIAL: Key = Key::json("partial_rotary_factor");

/// Base of files in GGUF that name none.
const GGUF_THETA: f64 = 10_000.0;

/// Reads the rotary embedding; `theta` is the base of a `config.json` that names none.
pub(super) fn rope(keys: &mut Keys<'_>, pairs: RotaryPairs, theta: f64) -> Result<Rope, Error> {
    let (theta, parameters) = if keys.is_gguf() {
        reject_gguf_scaling(keys)?;
        (GGUF_THETA, None)
    } else {
        (theta, json_parameters(keys.settings)?)
    };
    if keys.number(PARTIAL)?.is_some_and(|factor| factor != 1.0) {
        return Err(keys.fault(PARTIAL, "only 1.0 is supported"));
    }
    let theta = match (keys.number(THETA)?, parameters) {
        (None, Some(theta)) => theta,
        _ => keys.number_or(THETA, theta, "rotary base")?,
    };
    Ok(Rope { theta, pairs })
}

fn reject_gguf_scaling(keys: &Keys<'_>) -> Result<(), Error> {
    let kind = keys.text(SCALING)?.unwrap_or("none");
    // Converters of the 2024 models write "linear" and a factor of 1, which changes nothing.
    if !["none", "linear"].contains(&kind) {
        let what = format!("\"{}\", rotary scaling is not supported", quote_safely(kind));
        return Err(keys.fault(SCALING, what));
    }
    for key in [Key::gguf("rope.scale_linear"), Key::gguf("rope.scaling.factor")] {
        if let Some(factor) = keys.number(key)?.filter(|&factor| factor != 1.0) {
            return Err(keys.fault(key, format!("{factor}, rotary scaling is not supported")));
        }
    }
    Ok(())
}

/// Reads the base from the objects that `transformers` 4 and 5 keep rotary settings in.
fn json_parameters(settings: &Settings) -> Result<Option<f64>, Error> {
    let mut theta = None;
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = settings.object(key)? else { continue };
        let kind = rope.string("rope_type")?.or(rope.string("type")?).unwrap_or("default");
        if kind != "default" {
            let what = format!("\"{}\", rotary scaling is not supported", quote_safely(kind));
            return Err(rope.fault("rope_type", what));
        }
        theta = theta.or(rope.number("rope_theta")?);
    }
    Ok(theta)
}
