//! Rotary embeddings, as files describe them.
//!
//! GGUF metadata has keys for linear scaling and YaRN, and tensors of divisors for the other methods;
//! `config.json` has one object, in the styles of `transformers` 4 (`rope_scaling`) and 5
//! (`rope_parameters`).

use wf_core::{Rope, RopeDivisors, RopeScaling, RotaryPairs, Yarn};

use super::keys::{Key, Keys};
use crate::config::settings::Settings;
use crate::error::{Error, quote_safely};

const THETA: Key = Key::new("rope.freq_base", "rope_theta");
const CONTEXT: Key = Key::new("context_length", "max_position_embeddings");
const ORIGINAL_CONTEXT: Key =
    Key::new("rope.scaling.original_context_length", "original_max_position_embeddings");
const PARTIAL: &str = "partial_rotary_factor";
/// Objects of `config.json` that have rotary settings.
const OBJECTS: [&str; 2] = ["rope_scaling", "rope_parameters"];
/// The part of such an object for layers without a window, if it has parts.
const FULL: &str = "full_attention";
pub(super) const ROPE_DIM: Key = Key::gguf("rope.dimension_count");

const SCALING: Key = Key::gguf("rope.scaling.type");
const FACTOR: Key = Key::gguf("rope.scaling.factor");
/// The factor in files of 2023.
const OLD_FACTOR: Key = Key::gguf("rope.scale_linear");
const ATTENTION: Key = Key::gguf("rope.scaling.attn_factor");
const YARN_ATTENTION: Key = Key::gguf("rope.scaling.yarn_attn_factor");
const BETA_FAST: Key = Key::gguf("rope.scaling.yarn_beta_fast");
const BETA_SLOW: Key = Key::gguf("rope.scaling.yarn_beta_slow");
const LOG_MULTIPLIER: Key = Key::gguf("rope.scaling.yarn_log_multiplier");
const EXTENSION: Key = Key::gguf("rope.scaling.yarn_ext_factor");
const LOW_TURNS: Key = Key::gguf("rope.scaling.low_freq_factor");
const HIGH_TURNS: Key = Key::gguf("rope.scaling.high_freq_factor");

/// Base of files in GGUF that name none.
const GGUF_THETA: f64 = 10_000.0;

/// Values of YaRN that files may leave out.
const DEFAULT_FAST_TURNS: f64 = 32.0;
const DEFAULT_SLOW_TURNS: f64 = 1.0;

/// Reads the rotary embedding; `theta` is the base of a `config.json` that names none.
pub(super) fn rope(
    keys: &mut Keys<'_>,
    pairs: RotaryPairs,
    theta: f64,
) -> Result<(Rope, RopeDivisors), Error> {
    if keys.is_gguf() {
        let (scaling, divisors) = gguf_scaling(keys)?;
        let theta = keys.number_or(THETA, GGUF_THETA, "rotary base")?;
        return Ok((Rope { theta, pairs, scaling, ..Rope::default() }, divisors));
    }
    let (mut named, mut scaling) = (None, (RopeScaling::None, RopeDivisors::default()));
    for key in OBJECTS {
        let Some(rope) = rope_object(keys, key)? else { continue };
        named = named.or(rope.number("rope_theta")?);
        if scaling.0 == RopeScaling::None {
            scaling = json_scaling(keys, &rope)?;
        }
    }
    let theta = match (keys.number(THETA)?, named) {
        (None, Some(theta)) => theta,
        _ => keys.number_or(THETA, theta, "rotary base")?,
    };
    let (scaling, divisors) = scaling;
    Ok((Rope { theta, pairs, scaling, ..Rope::default() }, divisors))
}

fn rope_object(keys: &Keys<'_>, key: &str) -> Result<Option<Settings>, Error> {
    let Some(rope) = keys.settings.object(key)? else { return Ok(None) };
    Ok(Some(rope.object(FULL)?.unwrap_or(rope)))
}

/// Reads the number of dimensions of a head that rotate; `None` is all of them. Where part of a head may not
/// rotate, a file that says so is rejected.
pub(super) fn rotated_dims(
    keys: &Keys<'_>,
    head_dim: usize,
    may_be_partial: bool,
) -> Result<Option<usize>, Error> {
    if keys.is_gguf() {
        let Some(dims) = keys.optional_size(ROPE_DIM)? else { return Ok(None) };
        return match dims {
            dims if dims == head_dim => Ok(None),
            dims if !may_be_partial => {
                Err(keys.fault(ROPE_DIM, format!("{dims}, must equal the head size {head_dim}")))
            }
            dims if dims.is_multiple_of(2) && (2..head_dim).contains(&dims) => Ok(Some(dims)),
            dims => {
                let what = format!("{dims}, must be even and from 2 to the head size {head_dim}");
                Err(keys.fault(ROPE_DIM, what))
            }
        };
    }
    let mut dims = json_dims(keys.settings, head_dim, may_be_partial)?;
    for key in OBJECTS {
        let Some(rope) = rope_object(keys, key)? else { continue };
        dims = dims.or(json_dims(&rope, head_dim, may_be_partial)?);
    }
    Ok(dims)
}

/// Returns `true` if the file says how many dimensions of a head rotate.
pub(super) fn names_rotated_dims(keys: &Keys<'_>) -> Result<bool, Error> {
    if keys.is_gguf() {
        return Ok(keys.is_set(ROPE_DIM));
    }
    let mut named = keys.settings.get(PARTIAL).is_some();
    for key in OBJECTS {
        named |= rope_object(keys, key)?.is_some_and(|rope| rope.get(PARTIAL).is_some());
    }
    Ok(named)
}

fn json_dims(
    settings: &Settings,
    head_dim: usize,
    may_be_partial: bool,
) -> Result<Option<usize>, Error> {
    let Some(factor) = settings.number(PARTIAL)?.filter(|&factor| factor != 1.0) else {
        return Ok(None);
    };
    if !may_be_partial {
        return Err(settings.fault(PARTIAL, format!("{factor}, only 1.0 is supported")));
    }
    // Truncated, as classes do; the addend undoes the rounding of a quotient.
    let dims = (head_dim as f64 * factor + 1e-6) as usize;
    if factor < 1.0 && dims.is_multiple_of(2) && dims >= 2 {
        return Ok(Some(dims));
    }
    let what = format!("{factor}, must be an even number of the {head_dim} dimensions of a head");
    Err(settings.fault(PARTIAL, what))
}

/// Reads the scaling of a GGUF file.
fn gguf_scaling(keys: &Keys<'_>) -> Result<(RopeScaling, RopeDivisors), Error> {
    let divisors = keys.evidence.rope_divisors.clone();
    let factor = match keys.number(FACTOR)? {
        Some(factor) => factor,
        None => keys.number(OLD_FACTOR)?.unwrap_or(1.0),
    };
    let kind = keys.text(SCALING)?.unwrap_or(if factor == 1.0 { "none" } else { "linear" });
    let original_len = match keys.optional_size(ORIGINAL_CONTEXT)? {
        Some(len) => len,
        None => keys.size(CONTEXT)?,
    };
    let scaling = match kind {
        // Our own types come before the divisors, which are written beside them for other programs.
        "llama3" => {
            let required = |key| keys.number(key)?.ok_or_else(|| keys.fault(key, "missing"));
            let (low_turns, high_turns) = (required(LOW_TURNS)?, required(HIGH_TURNS)?);
            RopeScaling::Llama3 { factor, low_turns, high_turns, original_len }
        }
        "none" | "linear" | "longrope" if divisors.is_some() => {
            let attention_factor = keys.number(ATTENTION)?.unwrap_or(1.0);
            RopeScaling::Divided { original_len, attention_factor }
        }
        // Converters of the 2024 models write "linear" and a factor of 1, which changes nothing.
        "none" => RopeScaling::None,
        "linear" if factor == 1.0 => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor },
        "dynamic" => RopeScaling::Dynamic { factor, original_len },
        "yarn" => gguf_yarn(keys, factor, original_len)?,
        "longrope" => {
            let what = "longrope, but there is no tensor \"rope_factors_long.weight\"";
            return Err(keys.fault(SCALING, what));
        }
        _ => {
            let known = "none, linear, yarn, longrope, llama3, dynamic";
            let what = format!("\"{}\", must be one of {known}", quote_safely(kind));
            return Err(keys.fault(SCALING, what));
        }
    };
    let divisors = match scaling {
        RopeScaling::Divided { .. } => divisors.unwrap_or_default(),
        _ => RopeDivisors::default(),
    };
    Ok((scaling, divisors))
}

fn gguf_yarn(keys: &Keys<'_>, factor: f64, original_len: usize) -> Result<RopeScaling, Error> {
    for (key, harmless) in [(LOG_MULTIPLIER, 0.0), (EXTENSION, 1.0)] {
        if let Some(value) = keys.number(key)?.filter(|&value| value != harmless && value >= 0.0) {
            return Err(keys.fault(key, format!("{value}, only {harmless} is supported")));
        }
    }
    // The attention factor is relative to that of the paper.
    let mut relative = 1.0;
    for key in [ATTENTION, YARN_ATTENTION] {
        relative *= keys.number(key)?.filter(|&value| value >= 0.0).unwrap_or(1.0);
    }
    let attention_factor = relative * Yarn::published_attention_factor(factor, 1.0);
    Ok(RopeScaling::Yarn(Yarn {
        factor,
        original_len,
        fast_turns: keys.number(BETA_FAST)?.unwrap_or(DEFAULT_FAST_TURNS),
        slow_turns: keys.number(BETA_SLOW)?.unwrap_or(DEFAULT_SLOW_TURNS),
        // Rounded as the writer expects: see `Yarn::relative_attention_factor`.
        attention_factor: f64::from(attention_factor as f32),
        whole_indices: true,
    }))
}

/// Reads the object that `transformers` keeps rotary settings in.
fn json_scaling(keys: &Keys<'_>, rope: &Settings) -> Result<(RopeScaling, RopeDivisors), Error> {
    let kind = rope.string("rope_type")?.or(rope.string("type")?).unwrap_or("default");
    let number = |key: &str| rope.number(key)?.ok_or_else(|| rope.fault(key, "missing"));
    let context_len = keys.optional_size(CONTEXT)?;
    let original_len = match rope.optional_size("original_max_position_embeddings")? {
        Some(len) => Some(len),
        None => keys.optional_size(ORIGINAL_CONTEXT)?.or(context_len),
    };
    let original_len = original_len.unwrap_or(0);
    let scaling = match kind {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: number("factor")? },
        "dynamic" => {
            // The length that `transformers` starts from, whatever the original one.
            let original_len = context_len.unwrap_or(0);
            RopeScaling::Dynamic { factor: number("factor")?, original_len }
        }
        "llama3" => RopeScaling::Llama3 {
            factor: number("factor")?,
            low_turns: number("low_freq_factor")?,
            high_turns: number("high_freq_factor")?,
            original_len,
        },
        "yarn" => json_yarn(rope, context_len.unwrap_or(0), original_len)?,
        "longrope" | "su" => {
            let ratio = context_len.unwrap_or(0) as f64 / (original_len as f64).max(1.0);
            let factor = rope.number("factor")?.unwrap_or(ratio);
            let attention_factor = match rope.number("attention_factor")? {
                Some(attention_factor) => attention_factor,
                None => RopeDivisors::published_attention_factor(factor, original_len),
            };
            let list = |key: &str| rope.floats(key)?.ok_or_else(|| rope.fault(key, "missing"));
            let (short, long) = (list("short_factor")?, list("long_factor")?);
            let scaling = RopeScaling::Divided { original_len, attention_factor };
            return Ok((scaling, RopeDivisors { short, long }));
        }
        _ => {
            let known = "default, linear, dynamic, llama3, yarn, longrope";
            let what = format!("\"{}\", must be one of {known}", quote_safely(kind));
            return Err(rope.fault("rope_type", what));
        }
    };
    Ok((scaling, RopeDivisors::default()))
}

fn json_yarn(
    rope: &Settings,
    context_len: usize,
    original_len: usize,
) -> Result<RopeScaling, Error> {
    let ratio = context_len as f64 / (original_len as f64).max(1.0);
    let factor = rope.number("factor")?.unwrap_or(ratio);
    let scales = [rope.number("mscale")?, rope.number("mscale_all_dim")?];
    let scales = scales.map(|scale| scale.filter(|&scale| scale != 0.0));
    let attention_factor = match (rope.number("attention_factor")?, scales) {
        (Some(given), _) => given,
        (None, [Some(of_some), Some(of_all)]) => {
            Yarn::published_attention_factor(factor, of_some)
                / Yarn::published_attention_factor(factor, of_all)
        }
        (None, _) => Yarn::published_attention_factor(factor, 1.0),
    };
    let turns = |key: &str, default: f64| {
        let found = rope.number(key)?.filter(|&turns| turns != 0.0);
        Ok::<f64, Error>(found.unwrap_or(default))
    };
    Ok(RopeScaling::Yarn(Yarn {
        factor,
        original_len,
        fast_turns: turns("beta_fast", DEFAULT_FAST_TURNS)?,
        slow_turns: turns("beta_slow", DEFAULT_SLOW_TURNS)?,
        attention_factor,
        whole_indices: rope.bool("truncate")?.unwrap_or(true),
    }))
}
