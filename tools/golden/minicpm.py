"""Writes small random MiniCPM models, and their logits.

MiniCPM is Llama with scaled embeddings, residuals and logits. `transformers` has no class for it: its own
code comes with each model. Granite of `transformers` has the same three factors under other names, and any
rotary scaling, so it computes the logits, in float32. The weights are exactly ternary in groups of 128.

    python tools/golden/minicpm.py tests/data/minicpm
"""

import json
import math
import pathlib
import sys

import torch
from transformers import GraniteConfig, GraniteForCausalLM

from gguf_file import byte_tokens, write
from grouped import as_saved, gguf_tensors, interleaved, ternary, vocabulary
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 256, 128, 3, 4, 2, 64, 512
SPECIALS = ["<unk>", "<s>", "</s>"]
TOKENS = SPECIALS + byte_tokens()
THETA = 10_000.0
SCALE_EMB, SCALE_DEPTH, DIM_MODEL_BASE = 12, 1.4, 96
ORIGINAL = 64
PROMPT = 300
SCORED = [0, 1, 2, 7, 31, 63, 64, 65, 100, 127, 128, 150, 199, 255, 256, 290, 299]

# Divisors of each frequency in contexts up to the original length, and beyond.
SHORT = [1.0 + 0.01 * pair for pair in range(HEAD_DIM // 2)]
LONG = [1.0 + 0.25 * pair for pair in range(HEAD_DIM // 2)]
LONGROPE = {
    "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
    "original_max_position_embeddings": ORIGINAL,
}

# Name: whether the head is the embedding, rotary scaling.
MODELS = {"longrope": (False, LONGROPE), "tied": (True, None)}


def randomize(model):
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
        else:
            # Embeddings are scaled up, and logits down.
            table = 1 / SCALE_EMB if model.config.tie_word_embeddings else 0.1
            values.data = ternary(values.shape, table if "embed" in name else (1.5 / values.shape[-1]) ** 0.5)


def metadata(name, scaling):
    yield "general.architecture", "minicpm"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "rope.dimension_count": HEAD_DIM, "rope.freq_base": THETA, "attention.layer_norm_rms_epsilon": 1e-5,
        "embedding_scale": float(SCALE_EMB), "residual_scale": SCALE_DEPTH / LAYERS**0.5,
        "logit_scale": HIDDEN / DIM_MODEL_BASE,
    }.items():
        yield f"minicpm.{key}", content
    if scaling:
        factor = math.sqrt(1 + math.log(CONTEXT / ORIGINAL) / math.log(ORIGINAL))
        yield "minicpm.rope.scaling.type", "longrope"
        yield "minicpm.rope.scaling.original_context_length", ORIGINAL
        yield "minicpm.rope.scaling.attn_factor", factor
    yield from vocabulary(TOKENS, SPECIALS)


def config(tied, scaling):
    """Returns the configuration in the keys of the published models."""
    keys = {
        "architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "hidden_act": "silu",
        "vocab_size": len(TOKENS), "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": THETA,
        "scale_emb": SCALE_EMB, "scale_depth": SCALE_DEPTH, "dim_model_base": DIM_MODEL_BASE,
        "tie_word_embeddings": tied, "eos_token_id": 2,
    }
    return keys | ({"rope_scaling": scaling} if scaling else {})


def rope_tensors(scaling):
    for name in ("long", "short") if scaling else ():
        values = torch.tensor(scaling[f"{name}_factor"])
        yield f"rope_factors_{name}.weight", list(values.shape), 0, values.numpy().tobytes()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (tied, scaling)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        rope = {"rope_type": "default"} if scaling is None else dict(scaling)
        granite = GraniteConfig(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_parameters=rope | {"rope_theta": THETA},
            embedding_multiplier=float(SCALE_EMB), residual_multiplier=SCALE_DEPTH / LAYERS**0.5,
            logits_scaling=HIDDEN / DIM_MODEL_BASE, attention_multiplier=HEAD_DIM**-0.5,
            attn_implementation="eager", eos_token_id=2,
        )
        model = GraniteForCausalLM(granite).float().eval()
        randomize(model)
        saved = as_saved(model)
        tensors = [*gguf_tensors(interleaved(saved, HEAD_DIM)), *rope_tensors(scaling)]
        write(folder / f"{name}.gguf", metadata(name, scaling), tensors)
        record(folder, name, model, PROMPT, SCORED, config(tied, scaling))
        shapes = {name: list(values.shape) for name, values in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
