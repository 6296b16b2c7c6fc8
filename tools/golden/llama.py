"""Writes small random Llama models that quantize weights only, and their logits.

`transformers` runs them as plain floats, in float32. The weights of projections are exactly ternary:

- `quantized`: a file as `llama-quantize TQ2_0` writes it by default for a model with a head of its own: projections in
  TQ2_0, the embedding in Q4_K, the head in Q6_K. `gguf` from PyPI packs the former and decodes the latter two.
- `llama3`, `dynamic`: one scale per tensor, exact in bfloat16 and float16, and tables of floats, as in checkpoints of
  Falcon-E (bfloat16) and TriLM (float16) without `quantization_config`; with the rotary scalings of these names.

    python tools/golden/llama.py tests/data/llama
"""

import json
import pathlib
import sys

import numpy
import torch
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from transformers import LlamaConfig, LlamaForCausalLM

from gguf_file import byte_tokens, write
from grouped import NAMES, OUTSIDE, as_saved, interleaved, q2_0, vocabulary
from record import record

HEADS, KV_HEADS, HEAD_DIM, LAYERS = 4, 2, 64, 2
SPECIALS = ["<unk>", "<s>", "</s>"]
TOKENS = SPECIALS + byte_tokens()
THETA, EPS = 500_000.0, 1e-5
PROMPT = 300
SCORED = [0, 1, 2, 7, 31, 63, 64, 65, 100, 127, 128, 150, 199, 255, 256, 290, 299]

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}

# Name: feed-forward size, whether the head is the embedding, rotary scaling, context.
MODELS = {
    "quantized": (512, False, {"rope_type": "default"}, 512),
    "llama3": (128, False, LLAMA3, 512),
    # Frequencies depend on how far a prompt exceeds this length.
    "dynamic": (128, True, DYNAMIC, 128),
}


def hidden_size(name):
    # Blocks of TQ2_0 and Q4_K have 256 columns.
    return 256 if name == "quantized" else HEADS * HEAD_DIM // 2


def q4_k(rows, cols):
    """Returns random blocks of Q4_K: two factors in float16, 12 bytes of scales, 128 of codes."""
    blocks = rows * cols // 256
    factors = numpy.tile(numpy.array([2 / (63 * 15), 1 / 63], dtype=numpy.float16).view(numpy.uint8), (blocks, 1))
    rest = numpy.random.randint(0, 256, (blocks, 140), dtype=numpy.uint8)
    return numpy.concatenate([factors, rest], axis=1).reshape(rows, -1)


def q6_k(rows, cols):
    """Returns random blocks of Q6_K: 192 bytes of codes, 16 scales, a factor in float16."""
    blocks = rows * cols // 256
    rest = numpy.random.randint(0, 256, (blocks, 208), dtype=numpy.uint8)
    factor = numpy.array([1 / (18 * 73 * 16)], dtype=numpy.float16).view(numpy.uint8)
    return numpy.concatenate([rest, numpy.tile(factor, (blocks, 1))], axis=1).reshape(rows, -1)


def by_block(shape, factor):
    """Returns trits times a scale per 256 columns."""
    rows, cols = shape
    trits = torch.randint(-1, 2, (rows, cols // 256, 256)).float()
    scale = (factor * (0.5 + torch.rand(rows, cols // 256, 1))).half().float()
    return (trits * scale).reshape(shape)


def by_tensor(shape, factor):
    """Returns trits times one scale of eight significant bits."""
    scale = (torch.tensor(factor) * (0.5 + torch.rand(1))).bfloat16().float()
    return torch.randint(-1, 2, shape).float() * scale


def table(shape, factor):
    """Returns floats of seven significant bits."""
    return (torch.randint(-63, 64, shape) * factor / 64).bfloat16().float()


def randomize(model, is_quantized):
    """Sets all weights, and returns the blocks of tables."""
    blocks = {}
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).bfloat16().float()
            continue
        of_table = "embed" in name or "lm_head" in name
        if of_table and is_quantized:
            make, kind = (q4_k, Type.Q4_K) if "embed" in name else (q6_k, Type.Q6_K)
            blocks[name] = (kind, make(*values.shape))
            values.data = torch.from_numpy(dequantize(blocks[name][1], kind))
        elif of_table:
            values.data = table(values.shape, 1.0)
        else:
            draw = by_block if is_quantized else by_tensor
            values.data = draw(tuple(values.shape), (1.5 / values.shape[-1]) ** 0.5)
    return blocks


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if stem in OUTSIDE:
        return f"{OUTSIDE[stem]}.weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def tensors(saved, blocks):
    for name, values in interleaved(saved, HEAD_DIM).items():
        shape, gguf = list(values.shape[::-1]), gguf_name(name)
        if name in blocks:
            kind, content = blocks[name]
            yield gguf, shape, kind.value, content.tobytes()
        elif values.dim() == 1:
            yield gguf, shape, Type.F32.value, values.numpy().tobytes()
        elif gguf.startswith("blk.") and blocks:
            packed = quantize(values.numpy(), Type.TQ2_0)
            assert (dequantize(packed, Type.TQ2_0) == values.numpy()).all()
            yield gguf, shape, Type.TQ2_0.value, packed.tobytes()
        elif gguf.startswith("blk."):
            yield gguf, shape, 42, q2_0(values)
        else:
            yield gguf, shape, Type.F16.value, values.half().numpy().tobytes()


def metadata(name, ffn, rope, context):
    yield "general.architecture", "llama"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": 512, "embedding_length": hidden_size(name),
        "feed_forward_length": ffn, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.dimension_count": HEAD_DIM, "rope.freq_base": THETA, "attention.layer_norm_rms_epsilon": EPS,
    }.items():
        yield f"llama.{key}", content
    if rope["rope_type"] == "dynamic":
        # A type of wf: llama.cpp has none.
        yield "llama.rope.scaling.type", "dynamic"
        yield "llama.rope.scaling.factor", rope["factor"]
        yield "llama.rope.scaling.original_context_length", context
    yield from vocabulary(TOKENS, SPECIALS)


def rope_tensors(model, rope):
    """Returns the divisors of frequencies that the converter of llama.cpp writes for the scaling of Llama 3.1."""
    if rope["rope_type"] == "llama3":
        plain = 1.0 / THETA ** (torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        divisors = plain / model.model.rotary_emb.inv_freq
        yield "rope_freqs.weight", list(divisors.shape), 0, divisors.numpy().tobytes()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (ffn, tied, rope, context)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        config = LlamaConfig(
            vocab_size=len(TOKENS), hidden_size=hidden_size(name), intermediate_size=ffn, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
            max_position_embeddings=context, rms_norm_eps=EPS, rope_parameters=rope | {"rope_theta": THETA},
            tie_word_embeddings=tied, attn_implementation="eager", eos_token_id=2,
        )
        config.architectures = ["LlamaForCausalLM"]
        model = LlamaForCausalLM(config).float().eval()
        blocks = randomize(model, name == "quantized")
        saved = as_saved(model)
        all_tensors = [*tensors(saved, blocks), *rope_tensors(model, rope)]
        write(folder / f"{name}.gguf", metadata(name, ffn, rope, context), all_tensors)
        record(folder, name, model, PROMPT, SCORED)
        shapes = {name: list(values.shape) for name, values in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
