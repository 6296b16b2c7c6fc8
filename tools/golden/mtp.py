"""Writes small random hybrids with a multi-token prediction head, and the logits of both.

NumPy computes the logits in float64, by the formulas of docs/formats.md; `transformers` does not run such heads. The network itself
is that of `hadamard.py`, which is compared with `transformers` first.

    python tools/golden/mtp.py tests/data/qwen35
"""

import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

import hadamard as net
from gguf_file import write

# The head of `mtp` has an input projection of trits, that of `mtp-float` one of floats. In `mtp-copy` no layer adds anything, and
# the head repeats what the network computes of a token, so that it drafts what the network says.
MODELS = ["mtp", "mtp-float", "mtp-copy"]
OUTPUTS = ("attn_output.weight", "ssm_out.weight", "ffn_down.weight")
# Tokens that the head reads behind the prompt, each with its own state for the one before.
DRAFTS = 4
SIZES = (net.LAYERS, net.HEADS, net.KV_HEADS, net.HEAD_DIM, net.HEAD_DIM // 4, net.KEYS, net.VALUES, net.KEY_DIM, net.VALUE_DIM)


def head_tensors(random, name):
    hidden, query_len, kv_len, blk = net.HIDDEN, net.HEADS * net.HEAD_DIM, net.KV_HEADS * net.HEAD_DIM, f"blk.{net.LAYERS}."

    def trits(part, rows, cols):
        return f"{blk}{part}.weight", [cols, rows], net.Q2_0, net.ternary(random, (rows, cols), (1.5 / cols) ** 0.5)

    def floats(part, values):
        return f"{blk}{part}.weight", list(values.shape[::-1]), 0, values.astype("<f4").tobytes()

    def gains(part, size):
        return floats(part, np.ones(size) if name == "mtp-copy" else 1 + 0.3 * random.standard_normal(size))

    yield gains("attn_norm", hidden)
    yield gains("post_attention_norm", hidden)
    yield trits("ffn_gate", net.FFN, hidden)
    yield trits("ffn_up", net.FFN, hidden)
    yield trits("ffn_down", hidden, net.FFN)
    yield trits("attn_q", 2 * query_len, hidden)
    yield trits("attn_k", kv_len, hidden)
    yield trits("attn_v", kv_len, hidden)
    yield trits("attn_output", hidden, query_len)
    yield gains("attn_q_norm", net.HEAD_DIM)
    yield gains("attn_k_norm", net.HEAD_DIM)
    yield gains("nextn.enorm", hidden)
    yield gains("nextn.hnorm", hidden)
    yield gains("nextn.shared_head_norm", hidden)
    if name == "mtp":
        yield trits("nextn.eh_proj", hidden, 2 * hidden)
    elif name == "mtp-float":
        yield floats("nextn.eh_proj", random.standard_normal((hidden, 2 * hidden)) / hidden**0.5)
    else:
        yield floats("nextn.eh_proj", np.eye(hidden, 2 * hidden))


def without_outputs(records):
    """Replaces the trits of projections that add to the hidden states by zeros."""
    for name, dims, kind, content in records:
        if name.endswith(OUTPUTS):
            blocks = np.frombuffer(content, np.uint8).reshape(-1, 34).copy()
            blocks[:, 2:] = 0b01010101
            content = blocks.tobytes()
        if name == "output_norm.weight":
            content = np.ones(net.HIDDEN, "<f4").tobytes()
        yield name, dims, kind, content


def metadata(name):
    for key, content in net.metadata(name, net.Transform(), []):
        if key == "qwen35.block_count":
            yield key, net.LAYERS + 1
            yield "qwen35.nextn_predict_layers", 1
        elif not key.startswith("prism."):
            yield key, content


def predict(tensors, ids, prompt):
    """Returns the logits of the head for all tokens. Those behind the prompt have its own states before them."""
    w, plain = net.layer_of(tensors, net.LAYERS), net.Transform()
    before = net.states(tensors, ids[:prompt], plain, SIZES)
    before = np.concatenate([np.zeros((1, net.HIDDEN)), before[:-1]])
    while True:
        e, h = net.norm(tensors["token_embd"][ids[: len(before)]], w["nextn.enorm"]), net.norm(before, w["nextn.hnorm"])
        hidden = np.concatenate([e, h], -1) @ w["nextn.eh_proj"].T
        x = net.norm(hidden, w["attn_norm"])
        hidden = hidden + net.attention(w, x, net.HEADS, net.KV_HEADS, net.HEAD_DIM, net.HEAD_DIM // 4) @ w["attn_output"].T
        after = net.norm(net.feed_forward(w, hidden, plain), w["nextn.shared_head_norm"])
        if len(before) == len(ids):
            return after @ tensors["output"].T
        before = np.concatenate([before, after[-1:]])


def main(folder):
    net.check_network(folder)
    for seed, name in enumerate(MODELS):
        random = np.random.default_rng(100 + seed)
        records = list(net.tensors(random)) + list(head_tensors(random, name))
        path = folder / f"{name}.gguf"
        write(path, metadata(name), without_outputs(records) if name == "mtp-copy" else records)
        if name == "mtp-copy":
            continue
        ids = random.integers(0, len(net.TOKENS), net.PROMPT + DRAFTS).astype(np.int32)
        tensors = net.read(path)
        logits = net.run(tensors, ids[: net.PROMPT], net.Transform(), SIZES)
        drafts = predict(tensors, ids, net.PROMPT)
        scored = np.array(net.SCORED + list(range(net.PROMPT, len(ids))), np.int32)
        for file, ids, scored, rows in (
            (name, ids[: net.PROMPT], np.array(net.SCORED, np.int32), logits),
            (f"{name}-head", ids, scored, drafts),
        ):
            content = {"ids": ids, "scored": scored, "logits": rows[scored].astype(np.float32)}
            save_file(content, folder / f"{file}.safetensors")
            print(f"{file}: logits up to {np.abs(content['logits']).max():.1f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
