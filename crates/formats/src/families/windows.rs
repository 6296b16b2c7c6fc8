//! Layers with attention windows, as files describe them.

use wf_core::{Attention, Network};

use super::keys::{Key, Keys};
use crate::error::{Error, quote_safely};

const WINDOW: Key = Key::new("attention.sliding_window", "sliding_window");
const PATTERN: Key = Key::new("attention.sliding_window_pattern", "sliding_window_pattern");
const TYPES: Key = Key::json("layer_types");

/// The window of some layers, as the keys of a file name them.
pub(super) struct Windows {
    /// Number of positions that a layer with a window sees; `None` if no layer has one.
    len: Option<usize>,
    /// True for each layer with a window.
    layers: Vec<bool>,
}

impl Windows {
    /// Reads the windows of `layers` layers. Without a pattern, every layer whose number is a multiple of
    /// `period`, counted from 1, sees the whole sequence.
    pub(super) fn read(
        keys: &Keys<'_>,
        layers: usize,
        period: Option<usize>,
    ) -> Result<Self, Error> {
        let len = keys.optional_size(WINDOW)?.filter(|&len| len > 0);
        let named = match keys.texts(TYPES)? {
            Some(types) => Some(by_type(keys, &types)?),
            None if keys.is_list(PATTERN) => keys.flags(PATTERN)?,
            None => match keys.optional_size(PATTERN)?.or(period) {
                Some(0) => return Err(keys.fault(PATTERN, "0, must be at least 1")),
                Some(period) => {
                    Some((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect())
                }
                None => None,
            },
        };
        let key = if keys.is_set(TYPES) { TYPES } else { PATTERN };
        let sliding = match (len, named) {
            (Some(_), None) => return Err(keys.fault(key, "missing")),
            (None, None) => vec![false; layers],
            (_, Some(named)) if named.len() != layers => {
                let what =
                    format!("a list of {}, must have one for each of {layers} layers", named.len());
                return Err(keys.fault(key, what));
            }
            // Without its length, a period says nothing; a list does.
            (None, Some(named)) if keys.is_list(key) && named.contains(&true) => {
                let found = if keys.is_set(WINDOW) { "0" } else { "missing" };
                return Err(keys.fault(WINDOW, format!("{found}, but some layers have a window")));
            }
            (None, Some(_)) => vec![false; layers],
            (Some(_), Some(named)) => named,
        };
        Ok(Self { len, layers: sliding })
    }

    /// Sets the windows of a network, and lets `change` complete each layer.
    pub(super) fn apply(&self, network: &mut Network, change: impl Fn(&mut Attention)) {
        for (layer, &sliding) in network.layers.iter_mut().zip(&self.layers) {
            let Some(attention) = layer.attention_mut() else { continue };
            attention.window = self.len.filter(|_| sliding);
            change(attention);
        }
    }
}

fn by_type(keys: &Keys<'_>, types: &[&str]) -> Result<Vec<bool>, Error> {
    let is_sliding = |name: &&str| match *name {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => {
            let known = "must be sliding_attention or full_attention";
            Err(keys.fault(TYPES, format!("\"{}\", {known}", quote_safely(other))))
        }
    };
    types.iter().map(is_sliding).collect()
}
