"""Writes small random embedding models in GGUF, in the style of bitnet.cpp's converter, and their embeddings.

`transformers` computes the vectors: its Qwen3 and Gemma3 networks, with every linear layer replaced
by one that norms its input, rounds it to int8 by its largest value, and multiplies by trits.

    python tools/golden/embedding.py tests/data/embedding
"""

import json
import pathlib
import struct
import sys

import torch
from transformers import Gemma3TextConfig, Gemma3TextModel, Qwen3Config, Qwen3Model

from gguf_file import byte_tokens, write

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 128, 2, 4, 1, 64, 512
TEXTS = ["a", "query: What is BitNet?", "The cat sat on the mat.", "Zwölf Boxkämpfer jagen Viktor"]
SPECIALS = ["<unk>", "<|begin|>", "<|endoftext|>"]
UNKNOWN, BOS, EOS = range(3)
I2_S = 36


class BitLinear(torch.nn.Module):
    """Linear layer: norm, int8 quantization, ternary product."""

    def __init__(self, linear, eps):
        super().__init__()
        shape = linear.weight.shape
        self.trits = torch.randint(-1, 2, shape).float()
        self.scale = torch.rand(()).mul(0.05).add(0.02).item()
        self.scale = struct.unpack("f", struct.pack("f", self.scale))[0]
        self.norm = halves(1 + 0.3 * torch.randn(shape[1]))
        self.eps = eps

    def forward(self, x):
        x = self.norm * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))
        scale = 127 / x.abs().max(dim=-1, keepdim=True).values.clamp(min=1e-5)
        codes = (x * scale).round().clamp(-128, 127)
        return (codes.double() @ self.trits.double().T).float() / scale * self.scale


def halves(values):
    """Rounds to values that the 16-bit type of the file represents exactly."""
    return values.half().float()


def network(kind):
    sizes = dict(
        vocab_size=len(vocabulary(kind)), hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, attn_implementation="eager",
    )
    if kind == "qwen3":
        model = Qwen3Model(Qwen3Config(**sizes, rope_theta=1_000_000.0))
    else:
        full = {"rope_type": "default", "rope_theta": 10_000.0}
        model = Gemma3TextModel(
            Gemma3TextConfig(
                **sizes, query_pre_attn_scalar=HEAD_DIM, layer_types=["full_attention"] * LAYERS,
                rope_parameters={"full_attention": full, "sliding_attention": full},
            )
        )
    model = model.float().eval()
    for name, values in model.named_parameters():
        if "norm" in name:
            # Gemma adds 1 to the weights of its norms; the file contains the sums.
            centre = 0 if kind == "gemma3" else 1
            values.data = halves(1 + 0.3 * torch.randn(values.shape)) - (1 - centre)
        elif "embed_tokens" in name:
            values.data = halves(torch.randn(values.shape))
    for layer in model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, linear in list(part.named_children()):
                if name.endswith("_proj"):
                    setattr(part, name, BitLinear(linear, 1e-6))
    return model


PROJECTIONS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
NORMS = {
    "input_layernorm": "attn_norm", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
OWN_NORMS = {
    "qwen3": {"post_attention_layernorm": "ffn_norm"},
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
}


def tensors(kind, model):
    """Yields names, shapes, type numbers and bytes of the tensors of a file."""
    one = 1 if kind == "gemma3" else 0
    half = lambda values: values.half().numpy().tobytes()
    yield "token_embd.weight", [HIDDEN, len(vocabulary(kind))], 1, half(model.embed_tokens.weight.data)
    yield "output_norm.weight", [HIDDEN], 1, half(model.norm.weight.data + one)
    for at, layer in enumerate(model.layers):
        for theirs, ours in {**NORMS, **OWN_NORMS[kind]}.items():
            weight = layer.get_submodule(theirs).weight.data + one
            yield f"blk.{at}.{ours}.weight", list(weight.shape), 1, half(weight)
        for theirs, ours in PROJECTIONS.items():
            linear = layer.get_submodule(theirs)
            rows, cols = linear.trits.shape
            yield f"blk.{at}.{ours}.weight", [cols, rows], I2_S, i2_s(linear)
            yield f"blk.{at}.{ours}_norm_in.weight", [cols], 1, half(linear.norm)


def i2_s(linear):
    """Packs 128 trits into 32 bytes: byte j contains trits j, 32 + j, 64 + j and 96 + j, the first in the highest bits."""
    codes = (linear.trits.to(torch.int64) + 1).reshape(-1, 4, 32)
    packed = codes[:, 0] << 6 | codes[:, 1] << 4 | codes[:, 2] << 2 | codes[:, 3]
    return bytes(packed.flatten().tolist()) + struct.pack("f", linear.scale) + bytes(28)


def vocabulary(kind):
    """Returns special tokens, followed by one token per byte or per character of the texts."""
    if kind == "qwen3":
        return SPECIALS + byte_tokens()
    return SPECIALS + [char.replace(" ", "\u2581") for char in sorted(set("".join(TEXTS)))]


def encode(kind, text):
    """Returns the tokens of a text, with begin and end tokens."""
    if kind == "qwen3":
        return [*(len(SPECIALS) + byte for byte in text.encode()), EOS]
    tokens = vocabulary(kind)
    return [BOS, *(tokens.index(char.replace(" ", "\u2581")) for char in text), EOS]


def metadata(kind):
    theta = 1_000_000.0 if kind == "qwen3" else 10_000.0
    tokens = vocabulary(kind)
    types = [2, 3, 3] + [1] * (len(tokens) - len(SPECIALS))
    yield "general.architecture", kind
    yield "general.name", f"random-{kind}"
    for key, value in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": FFN, "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS, "vocab_size": len(tokens), "rope.dimension_count": HEAD_DIM,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.freq_base": theta, "attention.layer_norm_rms_epsilon": 1e-6, "pooling_type": 3,
    }.items():
        yield f"{kind}.{key}", value
    yield "general.file_type", 40
    yield "tokenizer.ggml.model", "gpt2" if kind == "qwen3" else "llama"
    yield "tokenizer.ggml.pre", "qwen2" if kind == "qwen3" else "default"
    yield "tokenizer.ggml.tokens", tokens
    yield "tokenizer.ggml.token_type", types
    if kind == "gemma3":
        yield "tokenizer.ggml.scores", [0.0] * len(tokens)
        yield "tokenizer.ggml.add_space_prefix", False
        yield "tokenizer.ggml.add_bos_token", True
    yield "tokenizer.ggml.bos_token_id", BOS
    yield "tokenizer.ggml.eos_token_id", EOS
    yield "tokenizer.ggml.add_eos_token", True


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, kind in enumerate(("qwen3", "gemma3")):
        torch.manual_seed(seed)
        model = network(kind)
        write(folder / f"{kind}.gguf", metadata(kind), tensors(kind, model))
        golden = []
        for text in TEXTS:
            ids = encode(kind, text)
            with torch.no_grad():
                states = model(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
            unit = lambda vector: [round(v, 6) for v in (vector / vector.norm()).tolist()]
            golden.append(
                {"text": text, "ids": ids, "last": unit(states[-1]), "mean": unit(states.mean(0))}
            )
        (folder / f"{kind}.json").write_text(json.dumps(golden) + "\n")


main(pathlib.Path(sys.argv[1]))
