"""Writes small random hybrids of recurrent (Gated DeltaNet) and attention layers, and their logits.

Qwen3.5 of `transformers` computes the logits, in float32. Projections and tables are exactly ternary in groups of 128; the
convolution, the gates of the recurrence and norms are floats. The GGUF files have the names, and the order of value heads,
of llama.cpp's converter.

    python tools/golden/qwen35.py tests/data/qwen35
"""

import json
import pathlib
import sys

import torch
from safetensors.numpy import load_file, save_file
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from gguf_file import byte_tokens, write
from grouped import NAMES, OUTSIDE, Q2_0, as_saved, q2_0, ternary, vocabulary
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 128, 4, 4, 2, 64, 1024
VALUE_DIM, CONV = 128, 4
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
THETA = 10_000_000.0
PROMPT = 700
SCORED = [0, 1, 2, 3, 4, 7, 31, 32, 63, 64, 65, 127, 128, 255, 256, 400, 511, 512, 640, 699]

# Name: key heads, value heads, length of a key, layers from one with attention to the next, whether the head is the embedding.
MODELS = {"tiled": (2, 4, 32, 4, False), "equal": (2, 2, 64, 2, True)}

LINEAR_NAMES = NAMES | {
    "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
}
# Names without `.weight` behind.
WHOLE_NAMES = {"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}
FLOATS = ("ssm_conv1d", "ssm_beta", "ssm_alpha")


def randomize(model):
    for name, values in model.named_parameters():
        if name.endswith("A_log"):
            # States that forget half within one to a hundred tokens.
            values.data = torch.empty(values.shape).uniform_(0.01, 1.0).log()
        elif name.endswith("dt_bias"):
            values.data = torch.empty(values.shape).uniform_(-3.0, 0.5)
        elif name.endswith("linear_attn.norm.weight"):
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
        elif values.dim() == 1:
            values.data = (0.3 * torch.randn(values.shape)).half().float()
        elif "conv1d" in name:
            values.data = 0.6 * torch.randn(values.shape)
        elif "in_proj_a" in name or "in_proj_b" in name:
            values.data = torch.randn(values.shape) / values.shape[-1] ** 0.5
        else:
            values.data = ternary(values.shape, 1.0 if "embed" in name else (1.5 / values.shape[-1]) ** 0.5)


def metadata(name, keys, values, key_dim, period):
    yield "general.architecture", "qwen35"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM, "rope.freq_base": THETA,
        "rope.dimension_count": HEAD_DIM // 4, "rope.dimension_sections": [3, 3, 2, 0],
        "attention.layer_norm_rms_epsilon": 1e-6, "ssm.conv_kernel": CONV, "ssm.state_size": key_dim,
        "ssm.group_count": keys, "ssm.time_step_rank": values, "ssm.inner_size": values * VALUE_DIM,
        "full_attention_interval": period,
    }.items():
        yield f"qwen35.{key}", content
    yield from vocabulary(TOKENS, SPECIALS)


def tiled(values, dim, keys, heads):
    """Reorders value heads along a dimension: the first ones of all key heads, then the second ones."""
    blocks = values.unflatten(dim, (keys, heads // keys, -1))
    return blocks.transpose(dim, dim + 1).flatten(dim, dim + 2)


def reordered(part, values, keys, heads, key_dim):
    """Returns a tensor of a recurrent layer with the value heads in the order of llama.cpp."""
    others = 2 * keys * key_dim
    if part in ("linear_attn.in_proj_qkv", "linear_attn.conv1d"):
        return torch.cat([values[:others], tiled(values[others:], 0, keys, heads)])
    if part == "linear_attn.out_proj":
        return tiled(values, 1, keys, heads)
    if part.startswith("linear_attn.") and part != "linear_attn.norm":
        return tiled(values, 0, keys, heads)
    return values


def gguf_tensors(saved, keys, heads, key_dim):
    for name, values in saved.items():
        stem = name.removesuffix(".weight")
        if stem in OUTSIDE:
            part, gguf = "", OUTSIDE[stem]
        else:
            layer, part = stem.removeprefix("model.layers.").split(".", 1)
            gguf = f"blk.{layer}.{(LINEAR_NAMES | WHOLE_NAMES)[part]}"
        values = reordered(part, values, keys, heads, key_dim)
        if part == "linear_attn.A_log":
            # In double precision, rounded once.
            values = -values.double().exp().float()
        elif values.dim() == 1 and part not in ("linear_attn.dt_bias", "linear_attn.norm"):
            values = values + 1
        values = values.squeeze(1) if "conv1d" in name else values
        is_float = values.dim() == 1 or gguf.endswith(FLOATS)
        content = values.contiguous().numpy().tobytes() if is_float else q2_0(values)
        suffix = "" if part in WHOLE_NAMES else ".weight"
        yield f"{gguf}{suffix}", list(values.shape[::-1]), 0 if is_float else Q2_0, content


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (keys, values, key_dim, period, tied)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config = Qwen3_5TextConfig(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
            max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, tie_word_embeddings=tied,
            rope_parameters={
                "rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": 0.25,
                "mrope_section": [3, 3, 2], "mrope_interleaved": True,
            },
            linear_conv_kernel_dim=CONV, linear_key_head_dim=key_dim, linear_value_head_dim=VALUE_DIM,
            linear_num_key_heads=keys, linear_num_value_heads=values, full_attention_interval=period,
            attn_implementation="eager", eos_token_id=2,
        )
        config.architectures = ["Qwen3_5ForCausalLM"]
        model = Qwen3_5ForCausalLM(config).float().eval()
        randomize(model)
        saved = as_saved(model)
        write(folder / f"{name}.gguf", metadata(name, keys, values, key_dim, period), gguf_tensors(saved, keys, values, key_dim))
        record(folder, name, model, PROMPT, SCORED)
        # Logarithms cannot be computed back from the file to the last bit.
        path = folder / f"{name}.safetensors"
        logs = {key: content.numpy() for key, content in saved.items() if key.endswith("A_log")}
        save_file(load_file(path) | logs, path)
        shapes = {key: list(content.shape) for key, content in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
