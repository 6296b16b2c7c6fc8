//! The Walsh–Hadamard transform of weights in the configuration of a `.wf` file.

use serde_json::{Map, Value, json};
use wf_core::Hadamard;

use super::Keys;
use crate::error::Error;

/// Name of the setting.
pub(crate) const HADAMARD: &str = "hadamard";

/// Returns the value of the setting.
pub(crate) fn json(hadamard: &Hadamard) -> Value {
    let text = |signs: &Vec<i8>| -> String {
        signs.iter().map(|&sign| if sign < 0 { '-' } else { '+' }).collect()
    };
    json!({
        "block_size": hadamard.block_len,
        "signs": hadamard.signs.iter().map(text).collect::<Vec<_>>(),
        "embedding": hadamard.embedding,
        "head": hadamard.head,
        "grouped_values": hadamard.grouped_values,
    })
}

/// Reads the setting.
pub(super) fn read(keys: &Keys<'_>) -> Result<Option<Hadamard>, Error> {
    let Some(settings) = keys.settings.object(HADAMARD)? else { return Ok(None) };
    let flag = |key: &str| {
        settings.bool(key)?.ok_or_else(|| settings.fault(key, "missing, must be true or false"))
    };
    let texts = settings.strings("signs")?;
    let texts =
        texts.ok_or_else(|| settings.fault("signs", "missing, must be a list of strings"))?;
    let signs = |text: &str| {
        let sign = |byte| match byte {
            b'+' => Ok(1),
            b'-' => Ok(-1),
            _ => Err(settings.fault("signs", "a sign is neither + nor -")),
        };
        text.bytes().map(sign).collect::<Result<Vec<i8>, Error>>()
    };
    let hadamard = Hadamard {
        block_len: settings.size("block_size")?,
        signs: texts.into_iter().map(signs).collect::<Result<_, _>>()?,
        embedding: flag("embedding")?,
        head: flag("head")?,
        grouped_values: flag("grouped_values")?,
    };
    let known = json(&hadamard);
    let known = known.as_object().map(Map::keys).into_iter().flatten().collect::<Vec<_>>();
    if let Some(other) = settings.keys_with("").find(|key| !known.iter().any(|k| k == key)) {
        return Err(settings.fault(other, "is not known"));
    }
    Ok(Some(hadamard))
}
