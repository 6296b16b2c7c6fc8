//! Names of the tensors of a layer, in tables that families share.

use crate::names::LayerTensor::{self, *};

/// The names of one tensor, without the layer in front and `.weight` behind.
pub(crate) struct Spelling {
    pub(crate) tensor: LayerTensor,
    pub(crate) gguf: &'static str,
    /// Empty if no checkpoint has the tensor under this name.
    pub(crate) hugging_face: &'static str,
}

const fn spelled(tensor: LayerTensor, gguf: &'static str, hugging_face: &'static str) -> Spelling {
    Spelling { tensor, gguf, hugging_face }
}

/// The usual names, which are also the ones written.
pub(crate) const STANDARD: &[Spelling] = &[
    spelled(AttnNorm, "attn_norm", "input_layernorm"),
    spelled(Query, "attn_q", "self_attn.q_proj"),
    spelled(Key, "attn_k", "self_attn.k_proj"),
    spelled(Value, "attn_v", "self_attn.v_proj"),
    spelled(AttnOutput, "attn_output", "self_attn.o_proj"),
    spelled(AttnSubNorm, "attn_sub_norm", "self_attn.attn_sub_norm"),
    spelled(FfnNorm, "ffn_norm", "post_attention_layernorm"),
    spelled(Gate, "ffn_gate", "mlp.gate_proj"),
    spelled(Up, "ffn_up", "mlp.up_proj"),
    spelled(Down, "ffn_down", "mlp.down_proj"),
    spelled(FfnSubNorm, "ffn_sub_norm", "mlp.ffn_sub_norm"),
    spelled(QueryInputNorm, "attn_q_norm_in", "self_attn.q_proj.norm"),
    spelled(KeyInputNorm, "attn_k_norm_in", "self_attn.k_proj.norm"),
    spelled(ValueInputNorm, "attn_v_norm_in", "self_attn.v_proj.norm"),
    spelled(GateInputNorm, "ffn_gate_norm_in", "mlp.gate_proj.norm"),
    spelled(UpInputNorm, "ffn_up_norm_in", "mlp.up_proj.norm"),
    spelled(QueryHeadNorm, "attn_q_norm", "self_attn.q_norm"),
    spelled(KeyHeadNorm, "attn_k_norm", "self_attn.k_norm"),
    // Gemma checkpoints call this norm `post_attention_layernorm`, the name of `FfnNorm` elsewhere.
    spelled(AttnOutputNorm, "post_attention_norm", "post_self_attn_layernorm"),
    spelled(FfnOutputNorm, "post_ffw_norm", "post_feedforward_layernorm"),
];

/// Names of the sub-norms in GGUF files where every projection norms its own input.
pub(crate) const INPUT_NORMS: &[Spelling] =
    &[spelled(AttnSubNorm, "attn_output_norm_in", ""), spelled(FfnSubNorm, "ffn_down_norm_in", "")];
