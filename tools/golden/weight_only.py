"""Writes small random models of families that quantize weights only, and their logits.

The weights are exactly ternary (or exactly binary) in groups of 128, embedding and output head too,
as in the Bonsai models. `transformers` runs them as plain floats.

    python tools/golden/weight_only.py tests/data/weight_only
"""

import pathlib
import sys

import numpy
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from gguf_file import byte_tokens, write
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 256, 256, 2, 4, 2, 64, 512
GROUP = 128
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
YARN = {"rope_type": "yarn", "rope_theta": 1_000_000.0, "factor": 8.0, "original_max_position_embeddings": 64}
PLAIN = {"rope_type": "default", "rope_theta": 1_000_000.0}
PROMPT = 300
SCORED = [0, 1, 2, 7, 31, 63, 64, 65, 100, 127, 128, 150, 199, 255, 256, 290, 299]

# Name: type number, magnitudes of weights, whether the head is the embedding, rotary parameters.
MODELS = {
    "ternary-yarn": (42, (-1, 0, 1), False, YARN),
    "binary-tied": (41, (-1, 1), True, PLAIN),
}

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    name = name.removesuffix(".weight")
    if name in OUTSIDE:
        return f"{OUTSIDE[name]}.weight"
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def randomize(model, digits):
    """Sets every matrix to digits times a scale per group, which f16 represents exactly."""
    trits = {}
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
            continue
        rows, cols = values.shape
        choice = torch.tensor(digits)[torch.randint(len(digits), (rows, cols))].float()
        scale = 0.5 + torch.rand(rows, cols // GROUP, 1)
        scale = scale * (1.0 if "embed" in name else (1.5 / cols) ** 0.5)
        scale = scale.half().float()
        values.data = (choice.reshape(rows, -1, GROUP) * scale).reshape(rows, cols)
        trits[name] = (choice.to(torch.int64), scale.squeeze(-1).half())
    return trits


def q2_0(trits, scales):
    """Packs groups of 128 as the scale and four weights per byte, low bits first (legacy PrismML)."""
    codes = (trits + 1).reshape(-1, GROUP // 4, 4)
    packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    return blocks(packed, scales)


def q1_0(trits, scales):
    """Packs groups of 128 as the scale and eight signs per byte, low bits first."""
    bits = (trits > 0).to(torch.int64).reshape(-1, GROUP // 8, 8)
    return blocks((bits << torch.arange(8)).sum(-1), scales)


def blocks(packed, scales):
    packed = packed.to(torch.uint8).numpy()
    scales = scales.reshape(-1, 1).numpy().view(numpy.uint8)
    return numpy.concatenate([scales, packed], axis=1).tobytes()


def metadata(name, rope):
    yield "general.architecture", "qwen3"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.freq_base": rope["rope_theta"], "attention.layer_norm_rms_epsilon": 1e-6,
    }.items():
        yield f"qwen3.{key}", content
    if rope["rope_type"] == "yarn":
        yield "qwen3.rope.scaling.type", "yarn"
        yield "qwen3.rope.scaling.factor", rope["factor"]
        yield "qwen3.rope.scaling.original_context_length", rope["original_max_position_embeddings"]
    yield "tokenizer.ggml.model", "gpt2"
    yield "tokenizer.ggml.pre", "qwen2"
    yield "tokenizer.ggml.tokens", TOKENS
    yield "tokenizer.ggml.token_type", [3] * len(SPECIALS) + [1] * (len(TOKENS) - len(SPECIALS))
    yield "tokenizer.ggml.eos_token_id", 2


def tensors(model, trits, number):
    pack = {41: q1_0, 42: q2_0}[number]
    for name, values in model.named_parameters():
        if name in trits:
            yield gguf_name(name), list(values.shape[::-1]), number, pack(*trits[name])
        else:
            yield gguf_name(name), list(values.shape), 0, values.detach().numpy().tobytes()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (number, digits, tied, rope)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config = Qwen3Config(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
            max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, rope_parameters=dict(rope),
            tie_word_embeddings=tied, attn_implementation="eager", eos_token_id=2,
        )
        config.architectures = ["Qwen3ForCausalLM"]
        model = Qwen3ForCausalLM(config).float().eval()
        trits = randomize(model, digits)
        write(folder / f"{name}.gguf", metadata(name, rope), tensors(model, trits, number))
        record(folder, name, model, PROMPT, SCORED)


main(pathlib.Path(sys.argv[1]))
