"""Writes small random mixtures of experts, and their logits.

The projections are exactly ternary in groups of 128, the router is in floats. `transformers` runs the
models in float32; the names and shapes of the tensors it saves are recorded too.

    python tools/golden/experts.py tests/data/experts
"""

import dataclasses
import json
import pathlib
import sys

import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeMLP

from gguf_file import byte_tokens, write
from grouped import as_saved, gguf_tensors, ternary, vocabulary
from record import record

HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 2, 1, 64, 512
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
THETA = 1_000_000.0
PROMPT = 200
SCORED = [0, 1, 2, 7, 31, 32, 63, 64, 65, 100, 127, 128, 150, 198, 199]


@dataclasses.dataclass
class Shape:
    experts: int
    active: int
    # Whether the shares of the active experts are divided by their sum.
    renormalize: bool
    layers: int = 2
    hidden: int = 128
    # Of an expert, and of the shared expert.
    ffn: int = 128
    shared: int | None = None
    # Qwen2-MoE, whose shared expert has a gate; otherwise Qwen3-MoE, to which one without a gate is added.
    gated: bool = False
    # One with which no recorded token is between two experts, so that codes of activations change no route.
    seed: int | None = None


MODELS = {
    "renormalized": Shape(8, 2, True),
    "plain": Shape(6, 3, False),
    # Rows of several groups.
    "shared": Shape(3, 2, False, layers=1, hidden=256, ffn=256, shared=128, gated=True),
    "ungated": Shape(4, 2, True, shared=256, seed=36),
}


def randomize(model, hidden):
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
        elif name.endswith(("mlp.gate.weight", "mlp.shared_expert_gate.weight")):
            values.data = (2.5 / hidden**0.5 * torch.randn(values.shape)).half().float()
        else:
            values.data = ternary(values.shape, 1.0 if "embed" in name else (1.5 / values.shape[-1]) ** 0.5)


def metadata(name, shape):
    arch = "qwen2moe" if shape.gated else "qwen3moe"
    yield "general.architecture", arch
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": shape.layers, "context_length": CONTEXT, "embedding_length": shape.hidden,
        "feed_forward_length": 3 * shape.ffn, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM,
        "rope.freq_base": THETA, "attention.layer_norm_rms_epsilon": 1e-6,
        "expert_count": shape.experts, "expert_used_count": shape.active, "expert_feed_forward_length": shape.ffn,
    }.items():
        yield f"{arch}.{key}", content
    if shape.shared:
        yield f"{arch}.expert_shared_feed_forward_length", shape.shared
    if not shape.renormalize and not shape.gated:
        yield f"{arch}.expert_weights_norm", False
    yield from vocabulary(TOKENS, SPECIALS)


def add_shared(block, args, output):
    """Adds what the shared expert computes to the output of a mixture, or to its first part."""
    shared = block.shared_expert(args[0])
    return (output[0] + shared, *output[1:]) if isinstance(output, tuple) else output + shared


def create(shape):
    of_class = (Qwen2MoeConfig, Qwen2MoeForCausalLM) if shape.gated else (Qwen3MoeConfig, Qwen3MoeForCausalLM)
    more = {"shared_expert_intermediate_size": shape.shared} if shape.shared else {}
    # Without biases, which ternary models do not have.
    more |= {"qkv_bias": False} if shape.gated else {}
    config = of_class[0](
        vocab_size=len(TOKENS), hidden_size=shape.hidden, intermediate_size=3 * shape.ffn,
        moe_intermediate_size=shape.ffn, num_hidden_layers=shape.layers, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, num_experts=shape.experts,
        num_experts_per_tok=shape.active, norm_topk_prob=shape.renormalize, max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-6, tie_word_embeddings=False, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": THETA}, attn_implementation="eager", **more,
    )
    config.architectures = [of_class[1].__name__]
    model = of_class[1](config)
    if shape.shared and not shape.gated:
        for layer in model.model.layers:
            layer.mlp.shared_expert = Qwen2MoeMLP(config, intermediate_size=shape.shared)
            layer.mlp.register_forward_hook(add_shared)
    return model.float().eval()


def main(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, shape) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        torch.manual_seed(seed if shape.seed is None else shape.seed)
        model = create(shape)
        randomize(model, shape.hidden)
        saved = as_saved(model)
        write(folder / f"{name}.gguf", metadata(name, shape), gguf_tensors(saved))
        record(folder, name, model, PROMPT, SCORED)
        shapes = {name: list(values.shape) for name, values in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]), sys.argv[2:])
