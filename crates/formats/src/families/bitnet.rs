//! BitNet b1.58: squared ReLU and sub-norms; models of 2024 have SiLU.

use wf_core::{Activation, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::{Family, INPUT_NORMS, Keys, STANDARD};
use crate::error::Error;
use crate::names::{LayerTensor, Spelling, spelled};

pub(super) const FAMILY: Family = Family {
    architectures: &["bitnet-b1.58", "bitnet-25", "bitnet"],
    classes: &["BitNetForCausalLM", "BitnetForCausalLM"],
    model_types: &["bitnet"],
    tensors: &[STANDARD, INPUT_NORMS, SUB_NORMS_2024],
    unquantized: "without it transformers runs the weights as plain floats; if they are BitNet master \
                  weights, add {\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\", \
                  \"quantization_mode\": \"online\"}",
    network,
    ..Family::GGUF_ONLY
};

/// Names of the sub-norms in checkpoints of 2024 (1bitLLM).
const SUB_NORMS_2024: &[Spelling] = &[
    spelled(LayerTensor::AttnSubNorm, "", "self_attn.inner_attn_ln"),
    spelled(LayerTensor::FfnSubNorm, "", "mlp.ffn_layernorm"),
];

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    let activation = keys.activation(default_activation)?;
    decoder(
        keys,
        activation,
        RotaryPairs::Halves,
        Defaults { eps: 1e-5, theta: 500_000.0, ..Defaults::LLAMA },
    )
}

/// Returns the activation of a file that names none, and the reason.
///
/// Converters other than ours write no activation, so the architecture and the vocabulary must tell
/// the models of 2024 (SiLU) from 2B-4T (squared ReLU).
fn default_activation(keys: &Keys<'_>) -> Result<(Activation, String), Error> {
    let Some(architecture) = keys.architecture else {
        return Ok(keys.family_default(Activation::Relu2));
    };
    let tokenizer = keys.vocabulary.map(|vocabulary| vocabulary.model.as_str());
    let problem = match (architecture, tokenizer) {
        ("bitnet", Some("llama")) => {
            let why = "architecture bitnet with a llama vocabulary, as in models of 2024";
            return Ok((Activation::Silu, why.to_owned()));
        }
        ("bitnet", Some("gpt2")) => {
            let why = "architecture bitnet with a gpt2 vocabulary, as in BitNet 2B-4T";
            return Ok((Activation::Relu2, why.to_owned()));
        }
        ("bitnet", _) => "is used for squared ReLU and for SiLU, and the vocabulary does not tell",
        // Microsoft's converter of 2026 gives the SiLU models of 2024 this name too.
        (_, Some("llama")) => {
            "is squared ReLU, but models of 2024 with a llama vocabulary are SiLU"
        }
        _ => return Ok(keys.family_default(Activation::Relu2)),
    };
    let key = format!("{architecture}.hidden_activation");
    let what = format!(
        "architecture {architecture} {problem}; {key} is not set: name the activation \
         (--activation relu2 or silu)"
    );
    Err(Error::unsupported(&keys.settings.file, what))
}
