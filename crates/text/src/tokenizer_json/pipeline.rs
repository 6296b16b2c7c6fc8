//! The instructions in `tokenizer.json`: normalizer, pre-tokenizer, post-processor, decoder.

use serde_json::Value;

use crate::normalize::Normalizer;
use crate::parts::PromptEnds;
use crate::split::{Prepend, Splitter};
use crate::{TextError, TokenId};

pub(super) struct PreTokenizer {
    pub(super) splitter: Splitter,
    /// True if the vocabulary is written in the byte alphabet.
    pub(super) byte_level: bool,
}

fn kind(value: &Value) -> &str {
    value["type"].as_str().unwrap_or("")
}

/// Reads a flag with its Hugging Face default.
fn flag(value: &Value, name: &str, default: bool) -> bool {
    value[name].as_bool().unwrap_or(default)
}

/// Returns the members of a `Sequence`, or the value itself.
fn members<'a>(value: Option<&'a Value>, list: &str) -> Vec<&'a Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(value) if kind(value) == "Sequence" => {
            value[list].as_array().map(|steps| steps.iter().collect()).unwrap_or_default()
        }
        Some(value) => vec![value],
    }
}

pub(super) fn normalizer(value: Option<&Value>) -> Result<Vec<Normalizer>, TextError> {
    let unsupported = |step: &Value| {
        TextError::unsupported("normalizer", &step.to_string(), "NFC, Prepend, Replace of a string")
    };
    let steps = members(value, "normalizers").into_iter();
    steps
        .map(|step| match kind(step) {
            "NFC" => Ok(Normalizer::Nfc),
            "Prepend" => {
                let prefix = step["prepend"].as_str().ok_or_else(|| unsupported(step))?;
                Ok(Normalizer::Prepend(prefix.to_owned()))
            }
            "Replace" => match (step["pattern"]["String"].as_str(), step["content"].as_str()) {
                (Some(from), Some(to)) if !from.is_empty() => {
                    Ok(Normalizer::Replace { from: from.to_owned(), to: to.to_owned() })
                }
                _ => Err(unsupported(step)),
            },
            _ => Err(unsupported(step)),
        })
        .collect()
}

pub(super) fn pre_tokenizer(value: Option<&Value>) -> Result<PreTokenizer, TextError> {
    let unsupported = |found: &Value| {
        TextError::unsupported(
            "pre_tokenizer",
            &found.to_string(),
            "null, Metaspace, ByteLevel, or Split by the pattern of GPT-2, Llama 3 or Qwen 2 followed by ByteLevel",
        )
    };
    let steps = members(value, "pretokenizers");
    match steps.as_slice() {
        [] => Ok(PreTokenizer { splitter: Splitter::Whole, byte_level: false }),
        [only] => match kind(only) {
            "ByteLevel" => {
                Ok(PreTokenizer { splitter: byte_level_splitter(only), byte_level: true })
            }
            "Metaspace" => {
                let splitter = metaspace(only).ok_or_else(|| unsupported(only))?;
                Ok(PreTokenizer { splitter, byte_level: false })
            }
            _ => Err(unsupported(only)),
        },
        [split, bytes] if kind(split) == "Split" && kind(bytes) == "ByteLevel" => {
            // With its own pattern or a prefix space, ByteLevel would split the pre-tokens again.
            if flag(bytes, "use_regex", true) || flag(bytes, "add_prefix_space", true) {
                return Err(unsupported(bytes));
            }
            let splitter = known_split(split).ok_or_else(|| unsupported(split))?;
            Ok(PreTokenizer { splitter, byte_level: true })
        }
        [first, ..] => Err(unsupported(value.unwrap_or(first))),
    }
}

fn byte_level_splitter(step: &Value) -> Splitter {
    let add_prefix_space = flag(step, "add_prefix_space", true);
    if flag(step, "use_regex", true) {
        Splitter::Gpt2 { add_prefix_space }
    } else {
        Splitter::Whole
    }
}

/// All supported patterns match every character, so isolating the matches and removing everything else are the
/// same.
fn known_split(step: &Value) -> Option<Splitter> {
    let inverted = flag(step, "invert", false);
    let keeps_matches = match step["behavior"].as_str()? {
        "Isolated" => !inverted,
        "Removed" => inverted,
        _ => false,
    };
    keeps_matches.then(|| Splitter::for_expression(step["pattern"]["Regex"].as_str()?))?
}

fn metaspace(step: &Value) -> Option<Splitter> {
    let mut replacement = step["replacement"].as_str()?.chars();
    let prepend = match (step["prepend_scheme"].as_str(), step["add_prefix_space"].as_bool()) {
        (Some("first"), _) => Prepend::First,
        (Some("never"), _) | (None, Some(false)) => Prepend::Never,
        (Some("always") | None, _) => Prepend::Always,
        (Some(_), _) => return None,
    };
    let splitter = Splitter::Metaspace {
        replacement: replacement.next()?,
        prepend,
        split: flag(step, "split", true),
    };
    replacement.next().is_none().then_some(splitter)
}

pub(super) fn post_processor(value: Option<&Value>) -> Result<PromptEnds, TextError> {
    let mut ends = PromptEnds::default();
    for step in members(value, "processors") {
        match kind(step) {
            // It only trims offsets, which are not reported.
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let (prefix, suffix) = template_ends(step)?;
                ends.prefix.splice(0..0, prefix);
                ends.suffix.extend(suffix);
            }
            _ => {
                return Err(TextError::unsupported(
                    "post_processor",
                    &step.to_string(),
                    "null, ByteLevel, TemplateProcessing or a Sequence of them",
                ));
            }
        }
    }
    ends.bos = ends.prefix.first().copied();
    Ok(ends)
}

/// Returns the tokens that a `TemplateProcessing` puts before and after a single text.
fn template_ends(step: &Value) -> Result<(Vec<TokenId>, Vec<TokenId>), TextError> {
    let unsupported = |item: &Value| {
        TextError::unsupported(
            "post_processor.single",
            &item.to_string(),
            "special tokens with known ids around the sequence A",
        )
    };
    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    let mut past_text = false;
    for item in step["single"].as_array().ok_or_else(|| unsupported(&step["single"]))? {
        if item["Sequence"]["id"] == "A" && !past_text {
            past_text = true;
            continue;
        }
        let name = item["SpecialToken"]["id"].as_str().ok_or_else(|| unsupported(item))?;
        let ids =
            step["special_tokens"][name]["ids"].as_array().ok_or_else(|| unsupported(item))?;
        for id in ids {
            let id = id.as_u64().and_then(|id| TokenId::try_from(id).ok());
            let side = if past_text { &mut suffix } else { &mut prefix };
            side.push(id.ok_or_else(|| unsupported(item))?);
        }
    }
    Ok((prefix, suffix))
}

/// Returns `true` if decoding drops the first space. Everything else follows from the alphabet.
pub(super) fn strips_leading_space(value: Option<&Value>) -> Result<bool, TextError> {
    let mut strips = false;
    for step in members(value, "decoders") {
        match kind(step) {
            "ByteLevel" | "ByteFallback" | "Fuse" | "Replace" => {}
            "Strip" => strips |= step["content"] == " " && step["start"].as_u64() == Some(1),
            "Metaspace" => {
                let splitter = metaspace(step);
                strips |=
                    !matches!(splitter, Some(Splitter::Metaspace { prepend: Prepend::Never, .. }));
            }
            _ => {
                return Err(TextError::unsupported(
                    "decoder",
                    &step.to_string(),
                    "null, ByteLevel, Metaspace or a Sequence of Replace, ByteFallback, Fuse, Strip",
                ));
            }
        }
    }
    Ok(strips)
}
