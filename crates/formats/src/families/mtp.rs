//! Multi-token prediction heads: where files have them, and whether they can run.
//!
//! GGUF files have the layer of the head behind those of the network, checkpoints under `mtp.`. A head that cannot run
//! changes nothing but the speed of a model, so it is left out, with the reason among the decisions.

use wf_core::{Mtp, Network};

use super::Keys;
use super::keys::Key;
use crate::error::Error;
use crate::names::{LayerTensor as T, TensorName};
use crate::tensor::{Encoding, TensorInfo};

/// Number of layers of the head.
const LAYERS: Key = Key::new("nextn_predict_layers", "mtp_num_hidden_layers");

/// Returns the name that a tensor of a checkpoint's head would have in a layer behind the others.
pub(super) fn name_behind(name: &str, layers: usize) -> Option<String> {
    let part = name.strip_prefix("mtp.")?;
    let part = part.strip_prefix("layers.0.").unwrap_or(name);
    Some(format!("model.layers.{layers}.{part}"))
}

/// Returns `true` for the name of an embedding or an output head that only a prediction head uses.
pub(crate) fn is_table(name: &str) -> bool {
    let of_gguf = [".nextn.embed_tokens.weight", ".nextn.shared_head_head.weight"];
    let of_checkpoints = ["mtp.embed_tokens.weight", "mtp.lm_head.weight"];
    of_gguf.iter().any(|end| name.ends_with(end)) || of_checkpoints.contains(&name)
}

/// Removes the layers of the head, which GGUF files count among the others. Returns their number.
pub(super) fn split_layers(keys: &Keys<'_>, network: &mut Network) -> Result<usize, Error> {
    let count = keys.optional_size(LAYERS)?;
    if !keys.is_gguf() {
        return Ok(count.unwrap_or(1));
    }
    let count = count.unwrap_or(0);
    let Some(layers) = network.layers.len().checked_sub(count).filter(|&layers| layers > 0) else {
        let what = format!("{count}, must be less than the number of layers");
        return Err(keys.fault(LAYERS, what));
    };
    network.layers.truncate(layers);
    Ok(count)
}

/// Returns the head of a file whose configuration names `count` layers of it, if it can run.
///
/// The layers of `network` all have attention yet, of the kind that the head has.
pub(super) fn read(keys: &mut Keys<'_>, network: &Network, count: usize) -> Option<Mtp> {
    let found = |tensor| keys.evidence.has_any(&[tensor]);
    let is_named = keys.is_gguf() && count > 0;
    if !(is_named || found(T::MtpInput)) {
        return None;
    }
    let lacking = [T::MtpInput, T::MtpEmbeddingNorm, T::MtpHiddenNorm, T::MtpNorm]
        .into_iter()
        .find(|tensor| !found(*tensor));
    let problem = if let Some(tensor) = lacking {
        let name = TensorName::Layer(network.layers.len(), tensor).gguf();
        Some(format!("{name} is missing"))
    } else if count != 1 {
        Some(format!("it has {count} layers, one is supported"))
    } else if keys.evidence.has_mtp_tables {
        Some("it has an embedding or an output head of its own".to_owned())
    } else if network.hadamard.is_some() {
        Some("the weights are under a Hadamard transform".to_owned())
    } else {
        None
    };
    if let Some(problem) = problem {
        keys.decisions.push(unused(&problem));
        return None;
    }
    let (layer, norm) = (*network.layers.first()?, network.norm);
    Some(Mtp { embedding_norm: norm, hidden_norm: norm, layer, norm })
}

/// Returns a note if the projections of a head are no trits, so that it cannot run.
pub(crate) fn misfit(network: &Network, tensors: &[TensorInfo]) -> Option<String> {
    network.mtp?;
    let of_head = tensors.iter().filter(|t| t.name.layer() == Some(network.layers.len()));
    let mut floats =
        of_head.filter(|t| t.name.is_linear() && matches!(t.encoding, Encoding::Float(_)));
    let first = floats.next()?;
    Some(unused(&format!("{} is {}, which is not ternary", first.source_name, first.encoding)))
}

fn unused(why: &str) -> String {
    format!("the multi-token prediction head is not used: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_checkpoints_are_those_of_a_layer_behind_the_others() {
        let of = |name| name_behind(name, 4).unwrap_or_default();
        assert_eq!(of("mtp.fc.weight"), "model.layers.4.mtp.fc.weight");
        assert_eq!(of("mtp.layers.0.mlp.up_proj.weight"), "model.layers.4.mlp.up_proj.weight");
        assert_eq!(of("model.layers.0.mlp.up_proj.weight"), "");
        // A second layer has a name that nothing has.
        assert_eq!(
            of("mtp.layers.1.mlp.up_proj.weight"),
            "model.layers.4.mtp.layers.1.mlp.up_proj.weight"
        );
    }
}
