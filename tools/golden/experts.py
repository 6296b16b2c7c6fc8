"""Writes small random mixtures of experts, and their logits.

The projections are exactly ternary in groups of 128, the router is in floats. `transformers` runs the
models in float32; the names and shapes of the tensors it saves are recorded too.

    python tools/golden/experts.py tests/data/experts
"""

import json
import pathlib
import sys
import tempfile

import numpy
import torch
from safetensors import safe_open
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from gguf_file import byte_tokens, write
from record import record

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 128, 2, 2, 1, 64, 512
GROUP = 128
Q2_0 = 42
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
THETA = 1_000_000.0
PROMPT = 200
SCORED = [0, 1, 2, 7, 31, 32, 63, 64, 65, 100, 127, 128, 150, 198, 199]

# Name: experts, active experts, whether the shares of the active ones are divided by their sum.
MODELS = {"renormalized": (8, 2, True), "plain": (6, 3, False)}

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate": "ffn_gate_inp", "input_layernorm": "attn_norm",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
}
EXPERTS = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def ternary(shape, factor):
    """Returns trits times a scale per group, which f16 represents exactly."""
    *outer, cols = shape
    trits = torch.randint(-1, 2, (*outer, cols // GROUP, GROUP)).float()
    scale = (factor * (0.5 + torch.rand(*outer, cols // GROUP, 1))).half().float()
    return (trits * scale).reshape(shape)


def randomize(model):
    for name, values in model.named_parameters():
        if values.dim() == 1:
            values.data = (1 + 0.3 * torch.randn(values.shape)).half().float()
        elif name.endswith("mlp.gate.weight"):
            values.data = (2.5 / HIDDEN**0.5 * torch.randn(values.shape)).half().float()
        else:
            values.data = ternary(values.shape, 1.0 if "embed" in name else (1.5 / values.shape[-1]) ** 0.5)


def q2_0(values):
    """Packs groups of 128 as the scale and four weights per byte, low bits first."""
    groups = values.reshape(-1, GROUP)
    scales = groups.abs().max(dim=1, keepdim=True).values
    assert (scales > 0).all()
    codes = (groups / scales).round().to(torch.int64).add(1).reshape(-1, GROUP // 4, 4)
    packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    scales = scales.half().numpy().view(numpy.uint8)
    return numpy.concatenate([scales, packed.to(torch.uint8).numpy()], axis=1).tobytes()


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
    yield "tokenizer.ggml.model", "gpt2"
    yield "tokenizer.ggml.pre", "qwen2"
    yield "tokenizer.ggml.tokens", TOKENS
    yield "tokenizer.ggml.token_type", [3] * len(SPECIALS) + [1] * (len(TOKENS) - len(SPECIALS))
    yield "tokenizer.ggml.eos_token_id", 2


def tensors(saved, experts):
    """Returns the tensors of a GGUF file: those of all experts of a layer are one."""
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
                of_each = [saved[name.replace(".experts.0.", f".experts.{e}.")] for e in range(experts)]
                values = torch.stack(of_each)
                shape, gguf = shape + [experts], f"blk.{layer}.{EXPERTS[part]}"
            else:
                gguf = f"blk.{layer}.{NAMES[part]}"
        is_float = values.dim() == 1 or gguf.endswith("ffn_gate_inp")
        content = values.numpy().tobytes() if is_float else q2_0(values)
        yield f"{gguf}.weight", shape, 0 if is_float else Q2_0, content


def as_saved(model):
    """Returns the tensors under the names and in the shapes that `transformers` saves them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


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
        write(folder / f"{name}.gguf", keys, tensors(saved, experts))
        record(folder, name, model, PROMPT, SCORED)
        shapes = {name: list(values.shape) for name, values in saved.items()}
        (folder / f"{name}.tensors.json").write_text(json.dumps(shapes, indent=0) + "\n")


main(pathlib.Path(sys.argv[1]))
