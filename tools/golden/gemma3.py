"""Writes a small random Gemma3 model with windows in some layers, and its logits.

Gemma3 of `transformers` runs it in float32. The weights are exactly ternary in groups of 128. Every difference
between layers is there: a window with a rotary base of its own, and a scaled rotary embedding without one.

    python tools/golden/gemma3.py tests/data/gemma3
"""

import json
import pathlib
import sys

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from gguf_file import byte_tokens, write
from grouped import NAMES, as_saved, gguf_tensors, ternary, vocabulary
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 128, 4, 4, 2, 64, 512
SPECIALS = ["<pad>", "<bos>", "<eos>"]
TOKENS = SPECIALS + byte_tokens()
THETA, LOCAL_THETA, FACTOR = 1_000_000.0, 10_000.0, 4.0
# Every third layer sees the whole sequence.
WINDOW, PERIOD = 40, 3
# The root of this number divides attention scores, as in the 27B model not that of the head size.
QUERY_SCALAR = 40
PROMPT = 300
SCORED = [0, 1, 2, 7, 31, 38, 39, 40, 41, 63, 64, 65, 100, 127, 128, 150, 199, 255, 256, 290, 299]

OWN_NAMES = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def randomize(model):
    for name, values in model.named_parameters():
        if values.dim() == 1:
            # Gemma adds 1 to the weights of its norms.
            values.data = (0.3 * torch.randn(values.shape)).half().float()
        else:
            values.data = ternary(values.shape, (0.3 if "embed" in name else 1.5**0.5) / values.shape[-1] ** 0.5)


def metadata():
    yield "general.architecture", "gemma3"
    yield "general.name", "random-windows"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-6, "attention.scale": QUERY_SCALAR**-0.5,
        "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": PERIOD,
        "rope.freq_base": THETA, "rope.freq_base_swa": LOCAL_THETA,
        "rope.scaling.type": "linear", "rope.scaling.factor": FACTOR,
    }.items():
        yield f"gemma3.{key}", content
    yield from vocabulary(TOKENS, SPECIALS)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    kinds = ["sliding_attention" if layer % PERIOD else "full_attention" for layer in range(1, LAYERS + 1)]
    config = Gemma3TextConfig(
        vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, query_pre_attn_scalar=QUERY_SCALAR,
        sliding_window=WINDOW, layer_types=kinds, tie_word_embeddings=True, attn_implementation="eager",
        eos_token_id=2,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": FACTOR, "rope_theta": THETA},
            "sliding_attention": {"rope_type": "default", "rope_theta": LOCAL_THETA},
        },
    )
    config.architectures = ["Gemma3ForCausalLM"]
    model = Gemma3ForCausalLM(config).float().eval()
    randomize(model)
    saved = as_saved(model)
    write(folder / "windows.gguf", metadata(), gguf_tensors(saved, NAMES | OWN_NAMES, norm_offset=1.0))
    record(folder, "windows", model, PROMPT, SCORED)
    shapes = {name: list(values.shape) for name, values in saved.items()}
    (folder / "windows.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
