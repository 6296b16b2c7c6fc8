//! Model families: one file each, and the registry of all of them.
//!
//! A family file holds the names the family goes by, the names of its tensors, and a function from
//! the keys of a file to a [`Network`]. What families share is in `decoder` (layers that are all
//! alike) and `rope`; what they read from is [`Keys`], the same for GGUF metadata and
//! `config.json`. A new family is a new file and a line in [`FAMILIES`].

mod bitnet;
mod decoder;
mod experts;
mod gemma3;
pub(crate) mod hadamard;
mod keys;
mod llama;
mod maple;
mod minicpm;
pub(crate) mod mtp;
mod qwen2_moe;
mod qwen3;
mod qwen35;
mod qwen3_moe;
mod rope;
mod windows;

pub(crate) use keys::{Evidence, Keys, LAYER_LISTS};

use wf_core::Network;

use crate::config::settings::Settings;
use crate::error::{Error, quote_safely};
use crate::names::{INPUT_NORMS, LayerTensor, SHARED_EXPERTS, STANDARD, Spelling, TensorName};
use crate::tensor::FloatChange;

const FAMILIES: &[Family] = &[
    bitnet::FAMILY,
    llama::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
    qwen2_moe::FAMILY,
    qwen35::FAMILY,
    gemma3::FAMILY,
    minicpm::FAMILY,
    maple::FAMILY,
];

/// Names of architectures that users ask for and that cannot run, with the reason.
const KNOWN_UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &[
            "qwen35moe",
            "qwen3next",
            "qwen3_5_moe",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3NextForCausalLM",
        ],
        "recurrent layers (Gated DeltaNet) beside experts are not supported: dense ones are, as qwen35",
    ),
    (
        &["Gemma3ForConditionalGeneration"],
        "it has a vision tower, which is not supported: text-only checkpoints are Gemma3ForCausalLM",
    ),
];

/// The start of the names of layers in a checkpoint.
const PREFIX: &str = "model.layers.";

fn reason_for(name: &str) -> Option<&'static str> {
    let found = KNOWN_UNSUPPORTED.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, reason)| *reason)
}

/// A model family.
pub(crate) struct Family {
    /// Values of `general.architecture` in GGUF files.
    architectures: &'static [&'static str],
    /// Model classes in `architectures` of `config.json`, the preferred spelling first. A family
    /// without any is read from GGUF files only.
    classes: &'static [&'static str],
    /// Values of `model_type` in `config.json`, for files without a class.
    model_types: &'static [&'static str],
    /// Names of the tensors of a layer. A name found in an earlier table hides later ones.
    tensors: &'static [&'static [Spelling]],
    /// Names in checkpoints of tensors outside the layers, beside the usual ones.
    outside: &'static [(&'static str, TensorName)],
    /// Number that a network adds to the weights of norms in a checkpoint; GGUF files have the sums.
    norm_addend: f32,
    /// Starts of the names of tensors in a checkpoint that text does not need, with a note about them.
    skipped: &'static [(&'static str, &'static str)],
    /// True if a checkpoint may have other parts: keys of its text part are then under `text_config`, and
    /// names of its tensors have `language_model` in front.
    has_parts: bool,
    /// True if weights may be under a Walsh–Hadamard transform.
    pub(crate) transforms: bool,
    /// True if there may be a multi-token prediction head.
    predicts: bool,
    /// Advice for a checkpoint without `quantization_config`.
    pub(crate) unquantized: &'static str,
    network: fn(&mut Keys<'_>) -> Result<Network, Error>,
}

impl Family {
    /// A family that is read from GGUF files only, with the usual names of tensors.
    const GGUF_ONLY: Self = Self {
        architectures: &[],
        classes: &[],
        model_types: &[],
        tensors: &[STANDARD, INPUT_NORMS, SHARED_EXPERTS],
        outside: &[],
        norm_addend: 0.0,
        skipped: &[],
        has_parts: false,
        transforms: false,
        predicts: false,
        unquantized: "not a ternary model",
        network: llama::network,
    };

    /// Returns the family of a GGUF file and the architecture it names.
    pub(crate) fn of_gguf(settings: &Settings) -> Result<(&'static Self, &str), Error> {
        let key = "general.architecture";
        let Some(name) = settings.string(key)? else {
            return Err(settings.fault(key, "missing"));
        };
        let family = FAMILIES.iter().find(|family| family.architectures.contains(&name));
        family.map(|family| (family, name)).ok_or_else(|| {
            let known: Vec<_> = FAMILIES.iter().flat_map(|f| f.architectures).copied().collect();
            let found = quote_safely(name);
            let must = format!("must be one of {}", known.join(", "));
            settings.fault(key, format!("\"{found}\", {}", reason_for(name).unwrap_or(&must)))
        })
    }

    /// Returns the family of a `config.json`.
    pub(crate) fn of_config(settings: &Settings) -> Result<&'static Self, Error> {
        let class = settings.get("architectures").and_then(|names| names.get(0));
        let name = match class {
            Some(class) => class.as_str(),
            None => settings.string("model_type")?,
        };
        let named = |family: &&Self, name: &str| {
            family.classes.contains(&name) || family.model_types.contains(&name)
        };
        let family = name.and_then(|name| FAMILIES.iter().find(|family| named(family, name)));
        family.ok_or_else(|| {
            let found = name.map_or("missing".to_owned(), |n| format!("\"{}\"", quote_safely(n)));
            let known: Vec<_> =
                FAMILIES.iter().filter_map(|f| f.classes.first()).copied().collect();
            let must = format!("must be one of {}", known.join(", "));
            let why = name.and_then(reason_for).unwrap_or(&must);
            settings.fault("architectures", format!("{found}, {why}"))
        })
    }

    /// Preferred name of the model class, or of the architecture for families without a class.
    pub(crate) fn class(&self) -> &'static str {
        self.classes.first().or(self.architectures.first()).copied().unwrap_or_default()
    }

    /// Reads and checks the network.
    pub(crate) fn network(&self, keys: &mut Keys<'_>) -> Result<Network, Error> {
        let network = (self.network)(keys)?;
        network.check().map_err(|e| Error::setting(&keys.settings.file, &e.key, e.problem))?;
        Ok(network)
    }

    /// Returns the settings of the text part of a checkpoint, which has the class of the whole.
    pub(crate) fn text_settings(&self, settings: Settings) -> Result<Settings, Error> {
        let text = if self.has_parts { settings.object("text_config")? } else { None };
        let Some(mut text) = text else { return Ok(settings) };
        for key in ["architectures", "bos_token_id", "eos_token_id", "tie_word_embeddings"] {
            if let (Some(value), None) = (settings.get(key), text.get(key)) {
                text.replace(key, value.clone());
            }
        }
        Ok(text)
    }

    /// Returns the note about a tensor of a checkpoint that text does not need.
    pub(crate) fn skipped_note(&self, name: &str) -> Option<&'static str> {
        let found = self.skipped.iter().find(|(start, _)| name.starts_with(start));
        found.map(|(_, note)| *note)
    }

    /// Returns the change of the floats of a tensor in a checkpoint.
    pub(crate) fn float_change(&self, name: TensorName) -> FloatChange {
        match name {
            TensorName::Layer(_, LayerTensor::DeltaDecay) => FloatChange::NegatedExp,
            // Stored as it is applied.
            TensorName::Layer(_, LayerTensor::DeltaHeadNorm) => FloatChange::None,
            name if name.is_norm() && self.norm_addend != 0.0 => FloatChange::Add(self.norm_addend),
            _ => FloatChange::None,
        }
    }

    pub(crate) fn gguf_tensor(&self, name: &str) -> Option<TensorName> {
        let spellings = self.tensors.iter().copied().flatten();
        TensorName::find(name, TensorName::gguf, "blk.", spellings.map(|s| (s.tensor, s.gguf)))
    }

    /// Returns the tensor with this name in a checkpoint of so many layers.
    pub(crate) fn hugging_face_tensor(&self, name: &str, layers: usize) -> Option<TensorName> {
        if let Some((_, tensor)) = self.outside.iter().find(|(known, _)| *known == name) {
            return Some(*tensor);
        }
        let part = name.strip_prefix("model.language_model.").filter(|_| self.has_parts);
        let behind = if self.predicts { mtp::name_behind(name, layers) } else { None };
        let name = &match (part, behind) {
            (Some(part), _) => format!("model.{part}"),
            (None, Some(behind)) => behind,
            (None, None) => name.to_owned(),
        };
        let spellings = self.tensors.iter().copied().flatten();
        let spellings = spellings.map(|s| (s.tensor, s.hugging_face));
        let find = |name: &str| {
            TensorName::find(name, TensorName::hugging_face, PREFIX, spellings.clone())
        };
        // A model that was saved without its head has names without the prefix.
        find(name).or_else(|| find(&format!("model.{name}")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_belongs_to_two_families() {
        let mut seen = HashSet::new();
        for family in FAMILIES {
            let names = [family.architectures, family.classes].concat();
            assert!(names.into_iter().all(|name| seen.insert(name)), "{}", family.class());
        }
    }

    #[test]
    fn norms_are_changed_where_a_family_stores_them_less_one() {
        let norm = TensorName::Layer(0, LayerTensor::AttnNorm);
        let weights = TensorName::Layer(0, LayerTensor::Query);
        for (architecture, change) in
            [("gemma3", FloatChange::Add(1.0)), ("llama", FloatChange::None)]
        {
            let mut families = FAMILIES.iter();
            let family = families.find(|f| f.architectures.contains(&architecture)).unwrap();
            assert_eq!(family.float_change(norm), change, "{architecture}");
            assert_eq!(family.float_change(weights), FloatChange::None, "{architecture}");
        }
    }

    #[test]
    fn every_family_reads_the_names_that_are_written() {
        for family in FAMILIES {
            for tensor in LayerTensor::ALL {
                let name = TensorName::Layer(107, tensor);
                // In hybrids, the name of one norm is that of another.
                if !(family.has_parts && tensor == LayerTensor::AttnOutputNorm) {
                    assert_eq!(family.gguf_tensor(&name.gguf()), Some(name));
                }
                // Gemma3 has names of its own, and is not written as a checkpoint.
                if family.norm_addend == 0.0 {
                    assert_eq!(family.hugging_face_tensor(&name.hugging_face(), 0), Some(name));
                }
            }
        }
    }

    #[test]
    fn norms_of_gemma_checkpoints_have_their_own_names() {
        let of = |part: &str| {
            let name = format!("model.layers.3.{part}.weight");
            gemma3::FAMILY.hugging_face_tensor(&name, 0)
        };
        let layer = |tensor| Some(TensorName::Layer(3, tensor));
        assert_eq!(of("post_attention_layernorm"), layer(LayerTensor::AttnOutputNorm));
        assert_eq!(of("pre_feedforward_layernorm"), layer(LayerTensor::FfnNorm));
        assert_eq!(of("post_feedforward_layernorm"), layer(LayerTensor::FfnOutputNorm));
    }

    #[test]
    fn models_saved_without_a_head_have_names_without_a_prefix() {
        let of = |name: &str| gemma3::FAMILY.hugging_face_tensor(name, 0);
        assert_eq!(of("embed_tokens.weight"), Some(TensorName::Embedding));
        assert_eq!(of("norm.weight"), Some(TensorName::OutputNorm));
        let query = TensorName::Layer(3, LayerTensor::Query);
        assert_eq!(of("layers.3.self_attn.q_proj.weight"), Some(query));
        assert_eq!(of("model.model.norm.weight"), None);
    }

    #[test]
    fn bitnet_checkpoints_of_2024_have_their_own_names_for_sub_norms() {
        let name = "model.layers.3.self_attn.inner_attn_ln.weight";
        let expected = TensorName::Layer(3, LayerTensor::AttnSubNorm);
        assert_eq!(bitnet::FAMILY.hugging_face_tensor(name, 0), Some(expected));
    }
}
