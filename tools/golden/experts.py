"""Writes small random mixtures of experts, and their logits.

The projections are exactly ternary in groups of 128, the router is in floats. `transformers` runs the
models in float32; the names and shapes of the tensors it saves are recorded too.

    python tools/golden/experts.py tests/data/experts
"""

import json
import pathlib
import sys

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from gguf_file import byte_tokens, write
from grouped import as_saved, gguf_tensors, ternary, vocabulary
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 128, 2, 2, 1, 64, 512
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
THETA = 1_000_000.0
PROMPT = 200
SCORED = [0, 1, 2, 7, 31, 32, 63, 64, 65, 100, 127, 128, 150, 198, 199]

# Name: experts, active experts, whether the shares of the active ones are divided by their sum.
MODELS = {"renormalized": (8, 2, True), "plain": (6, 3, False)}


def randomize(model):
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
        elif name.endswith("mlp.gate.weight"):
            values.data = (2.5 / HIDDEN**0.5 * torch.randn(values.shape)).half().float()
        else:
            values.data = ternary(values.shape, 1.0 if "embed" in name else (1.5 / values.shape[-1]) ** 0.5)


def metadata(name, experts, active, renormalize):
    yield "general.architecture", "qwen3moe"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN,
        "feed_forward_length": 3 * FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.freq_base": THETA, "attention.layer_norm_rms_epsilon": 1e-6,
        "expert_count": experts, "expert_used_count": active, "expert_feed_forward_length": FFN,
    }.items():
        yield f"qwen3moe.{key}", content
    if not renormalize:
        yield "qwen3moe.expert_weights_norm", False
    yield from vocabulary(TOKENS, SPECIALS)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (experts, active, renormalize)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config = Qwen3MoeConfig(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=3 * FFN, moe_intermediate_size=FFN,
            num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
            head_dim=HEAD_DIM, num_experts=experts, num_experts_per_tok=active, norm_topk_prob=renormalize,
            max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, tie_word_embeddings=False, eos_token_id=2,
            rope_parameters={"rope_type": "default", "rope_theta": THETA}, attn_implementation="eager",
        )
        config.architectures = ["Qwen3MoeForCausalLM"]
        model = Qwen3MoeForCausalLM(config).float().eval()
        randomize(model)
        saved = as_saved(model)
        keys = metadata(name, experts, active, renormalize)
        write(folder / f"{name}.gguf", keys, gguf_tensors(saved))
        record(folder, name, model, PROMPT, SCORED)
        shapes = {name: list(values.shape) for name, values in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
