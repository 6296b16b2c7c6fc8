"""Random weights that are exactly ternary in groups, and their blocks in GGUF."""

import tempfile

import numpy
import torch
from safetensors import safe_open

GROUP = 128
Q2_0 = 42

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "input_layernorm": "attn_norm",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
EXPERTS = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def ternary(shape, factor):
    """Returns trits times a scale per group, which f16 represents exactly."""
    *outer, cols = shape
    trits = torch.randint(-1, 2, (*outer, cols // GROUP, GROUP)).float()
    scale = (factor * (0.5 + torch.rand(*outer, cols // GROUP, 1))).half().float()
    return (trits * scale).reshape(shape)


def q2_0(values):
    """Packs groups of 128 as the scale and four weights per byte, low bits first."""
    groups = values.reshape(-1, GROUP)
    scales = groups.abs().max(dim=1, keepdim=True).values
    assert (scales > 0).all()
    codes = (groups / scales).round().to(torch.int64).add(1).reshape(-1, GROUP // 4, 4)
    packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    scales = scales.half().numpy().view(numpy.uint8)
    return numpy.concatenate([scales, packed.to(torch.uint8).numpy()], axis=1).tobytes()


def as_saved(model):
    """Returns the tensors under the names and in the shapes that `transformers` saves them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


def gguf_tensors(saved, names=NAMES, norm_offset=0.0):
    """Returns the tensors of a GGUF file: projections and tables as trits, those of all experts of a layer as one."""
    for name, values in saved.items():
        stem = name.removesuffix(".weight")
        shape = list(values.shape[::-1])
        if stem in OUTSIDE:
            gguf = OUTSIDE[stem]
        else:
            layer, part = stem.removeprefix("model.layers.").split(".", 1)
            if part.startswith("mlp.experts."):
                expert, part = part.removeprefix("mlp.experts.").split(".")
                if expert != "0":
                    continue
                of_each = []
                while (of_next := name.replace(".experts.0.", f".experts.{len(of_each)}.")) in saved:
                    of_each.append(saved[of_next])
                values = torch.stack(of_each)
                shape, gguf = shape + [len(of_each)], f"blk.{layer}.{EXPERTS[part]}"
            else:
                gguf = f"blk.{layer}.{names[part]}"
        if values.dim() == 1:
            values = values + norm_offset
        if gguf.endswith("_inp_shexp"):
            shape = shape[:1]
        is_float = values.dim() == 1 or "ffn_gate_inp" in gguf
        content = values.contiguous().numpy().tobytes() if is_float else q2_0(values)
        yield f"{gguf}.weight", shape, 0 if is_float else Q2_0, content


def interleaved(saved, head_dim):
    """Reorders the rows of queries and keys as the converter of llama.cpp does for Llama: dimensions i and i + half of a head side by side."""
    def rows(values):
        halves = values.reshape(-1, 2, head_dim // 2, values.shape[-1])
        return halves.swapaxes(1, 2).reshape(values.shape)

    is_rotated = lambda name: "q_proj" in name or "k_proj" in name
    return {name: rows(values) if is_rotated(name) else values for name, values in saved.items()}


def vocabulary(tokens, specials):
    """Returns the keys of a byte-level vocabulary whose last special token ends a text."""
    yield "tokenizer.ggml.model", "gpt2"
    yield "tokenizer.ggml.pre", "qwen2"
    yield "tokenizer.ggml.tokens", tokens
    yield "tokenizer.ggml.token_type", [3] * len(specials) + [1] * (len(tokens) - len(specials))
    yield "tokenizer.ggml.eos_token_id", len(specials) - 1
