"""Writes small random hybrids whose weights are under a Walsh–Hadamard transform, and their logits.

NumPy computes the logits in float64, by the formulas of docs/formats.md: matrices are multiplied as they are defined, nothing is
fast. `transformers` has no such models; that the network without the transform is right is shown by the logits that it
recorded for `tiled.gguf`, with which this script begins.

    python tools/golden/hadamard.py tests/data/qwen35
"""

import pathlib
import struct
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

from gguf_file import byte_tokens, write

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 128, 256, 2, 4, 2, 64, 1024
KEYS, VALUES, KEY_DIM, VALUE_DIM, CONV, PERIOD = 2, 4, 32, 128, 4, 2
GROUP, Q2_0, THETA, EPS = 128, 42, 10_000_000.0, 1e-6
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = SPECIALS + byte_tokens()
PROMPT, SCORED = 150, [0, 1, 2, 3, 7, 31, 32, 63, 64, 65, 100, 128, 149]

# Name: length of a block, whether there are signs, whether the tables are under the transform, whether `ssm_out` keeps grouped heads.
# A root that is a power of two, and one that is not.
MODELS = {"hadamard": (64, True, True, True), "hadamard-plain": (128, False, False, False)}


def sylvester(size):
    i = np.arange(size)
    signs = np.array([[bin(a & b).count("1") for b in i] for a in i])
    return np.where(signs % 2 == 0, 1.0, -1.0) / size**0.5


class Transform:
    """The transform of inputs; none if `block` is 0."""

    def __init__(self, block=0, signs=(), tables=False, grouped=False):
        self.block, self.signs, self.tables, self.grouped = block, {len(s): np.array(s, float) for s in signs}, tables, grouped

    def blocks(self, x):
        return (x.reshape(*x.shape[:-1], -1, self.block) @ sylvester(self.block)).reshape(x.shape)

    def of(self, x):
        return self.blocks(x * self.signs.get(x.shape[-1], 1.0)) if self.block else x

    def inverse(self, x):
        return self.blocks(x) * self.signs.get(x.shape[-1], 1.0)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attention(w, x, heads, kv_heads, dim, rotated):
    tokens = len(x)
    query = (x @ w["attn_q"].T).reshape(tokens, heads, 2 * dim)
    query, gate = query[..., :dim], query[..., dim:]
    key = (x @ w["attn_k"].T).reshape(tokens, kv_heads, dim)
    value = (x @ w["attn_v"].T).reshape(tokens, kv_heads, dim)
    angles = np.outer(np.arange(tokens), THETA ** (-np.arange(0, rotated, 2) / rotated))[:, None]
    cos, sin, half = np.cos(angles), np.sin(angles), rotated // 2

    def rotate(y):
        a, b, rest = y[..., :half], y[..., half:rotated], y[..., rotated:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)

    query, key = rotate(norm(query, w["attn_q_norm"])), rotate(norm(key, w["attn_k_norm"]))
    key, value = (np.repeat(y, heads // kv_heads, axis=1) for y in (key, value))
    scores = np.einsum("qhd,khd->hqk", query, key) / dim**0.5
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), value)
    return (mixed * sigmoid(gate)).reshape(tokens, -1)


def delta_net(w, x, plain, keys, values, key_dim, value_dim, rounded):
    """Value heads are tiled: head `h` has the key head `h % keys`. `plain` are the rows that the gates multiply, and `rounded`
    is applied to the state of a head after each token."""
    tokens, key_len = len(x), keys * key_dim
    inputs = x @ w["attn_qkv"].T
    padded = np.concatenate([np.zeros((CONV - 1, inputs.shape[1])), inputs])
    mixed = sum(padded[tap : tap + tokens] * w["ssm_conv1d"][:, tap] for tap in range(CONV))
    mixed = mixed * sigmoid(mixed)
    unit = lambda y: y / np.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)
    query = unit(mixed[:, :key_len].reshape(tokens, keys, key_dim)) / key_dim**0.5
    key = unit(mixed[:, key_len : 2 * key_len].reshape(tokens, keys, key_dim))
    value = mixed[:, 2 * key_len :].reshape(tokens, values, value_dim)
    strength = sigmoid(plain @ w["ssm_beta"].T)
    decay = np.exp(w["ssm_a"] * np.log1p(np.exp(plain @ w["ssm_alpha"].T + w["ssm_dt.bias"])))
    out, state = np.zeros((tokens, values, value_dim)), np.zeros((values, key_dim, value_dim))
    for t in range(tokens):
        for h in range(values):
            k, q = key[t, h % keys], query[t, h % keys]
            state[h] *= decay[t, h]
            state[h] += np.outer(k, strength[t, h] * (value[t, h] - k @ state[h]))
            out[t, h] = q @ state[h]
            state[h] = rounded(state[h])
    gate = (x @ w["attn_gate"].T).reshape(out.shape)
    return (norm(out, w["ssm_norm"]) * gate * sigmoid(gate)).reshape(tokens, -1)


def layer_of(tensors, layer):
    """Returns the tensors of a layer, without the layer in their names."""
    prefix = f"blk.{layer}."
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def feed_forward(w, hidden, transform):
    x = transform.of(norm(hidden, w["post_attention_norm"]))
    gate = x @ w["ffn_gate"].T
    return hidden + transform.of(gate * sigmoid(gate) * (x @ w["ffn_up"].T)) @ w["ffn_down"].T


def states(tensors, ids, transform, sizes, rounded=lambda state: state):
    """Returns the states of all positions after the final norm."""
    layers, heads, kv_heads, dim, rotated, keys, values, key_dim, value_dim = sizes
    hidden = tensors["token_embd"][ids]
    hidden = transform.inverse(hidden) if transform.tables else hidden
    for layer in range(layers):
        w = layer_of(tensors, layer)
        plain = norm(hidden, w["attn_norm"])
        if "attn_q" in w:
            mixed = attention(w, transform.of(plain), heads, kv_heads, dim, rotated)
            hidden = hidden + transform.of(mixed) @ w["attn_output"].T
        else:
            mixed = delta_net(w, transform.of(plain), plain, keys, values, key_dim, value_dim, rounded)
            if transform.grouped:
                tiled = mixed.reshape(len(ids), values // keys, keys, value_dim)
                mixed = tiled.swapaxes(1, 2).reshape(mixed.shape)
            hidden = hidden + transform.of(mixed) @ w["ssm_out"].T
        hidden = feed_forward(w, hidden, transform)
    return norm(hidden, tensors["output_norm"])


def run(tensors, ids, transform, sizes, rounded=lambda state: state):
    """Returns the logits of all positions."""
    hidden = states(tensors, ids, transform, sizes, rounded)
    return (transform.of(hidden) if transform.tables else hidden) @ tensors["output"].T


def read(path):
    """Returns the tensors of a GGUF file of F32 and groups of 128 trits, without the suffix of their names."""
    data, at = path.read_bytes(), 4

    def take(form):
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size : at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            of, size = take("I"), take("Q")
            for _ in range(size):
                skip(of)
        else:
            at += {4: 4, 5: 4, 6: 4, 7: 1}[kind]

    _, records, keys = take("I"), take("Q"), take("Q")
    for _ in range(keys):
        text()
        skip(take("I"))
    found = []
    for _ in range(records):
        name, dims = text(), take("I")
        found.append((name, [take("Q") for _ in range(dims)][::-1], take("I"), take("Q")))
    start = -(-at // 32) * 32
    tensors = {}
    for name, shape, kind, offset in found:
        size = int(np.prod(shape))
        if kind == 0:
            values = np.frombuffer(data, "<f4", size, start + offset).astype(float)
        else:
            blocks = np.frombuffer(data, np.uint8, size // GROUP * 34, start + offset).reshape(-1, 34)
            scales = blocks[:, :2].copy().view("<f2").astype(float)
            codes = blocks[:, 2:, None] >> np.array([0, 2, 4, 6]) & 3
            values = (codes.reshape(-1, GROUP) - 1.0) * scales
        tensors[name.removesuffix(".weight")] = values.reshape(shape)
    return tensors


def ternary(random, shape, factor):
    """Returns the bytes of trits with a scale for each group."""
    groups = shape[0] * shape[1] // GROUP
    codes = random.integers(0, 3, (groups, GROUP // 4, 4)).astype(np.uint8)
    packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
    scales = (factor * random.uniform(0.5, 1.5, (groups, 1))).astype("<f2")
    return np.concatenate([scales.view(np.uint8), packed], axis=1).tobytes()


def tensors(random):
    """Returns the tensors of a file: name, dimensions, type and bytes."""
    channels, value_len, query_len = 2 * KEYS * KEY_DIM + VALUES * VALUE_DIM, VALUES * VALUE_DIM, HEADS * HEAD_DIM

    def trits(name, rows, cols, factor=None):
        content = ternary(random, (rows, cols), factor or (1.5 / cols) ** 0.5)
        return f"{name}.weight", [cols, rows], Q2_0, content

    def floats(name, values):
        return name, list(values.shape[::-1]), 0, values.astype("<f4").tobytes()

    def gains(name, size):
        return floats(f"{name}.weight", 1 + 0.3 * random.standard_normal(size))

    yield trits("token_embd", len(TOKENS), HIDDEN, 1.0)
    for layer in range(LAYERS):
        blk = f"blk.{layer}."
        yield gains(f"{blk}attn_norm", HIDDEN)
        yield gains(f"{blk}post_attention_norm", HIDDEN)
        yield trits(f"{blk}ffn_gate", FFN, HIDDEN)
        yield trits(f"{blk}ffn_up", FFN, HIDDEN)
        yield trits(f"{blk}ffn_down", HIDDEN, FFN)
        if (layer + 1) % PERIOD == 0:
            yield trits(f"{blk}attn_q", 2 * query_len, HIDDEN)
            yield trits(f"{blk}attn_k", KV_HEADS * HEAD_DIM, HIDDEN)
            yield trits(f"{blk}attn_v", KV_HEADS * HEAD_DIM, HIDDEN)
            yield trits(f"{blk}attn_output", HIDDEN, query_len)
            yield gains(f"{blk}attn_q_norm", HEAD_DIM)
            yield gains(f"{blk}attn_k_norm", HEAD_DIM)
            continue
        yield trits(f"{blk}attn_qkv", channels, HIDDEN)
        yield trits(f"{blk}attn_gate", value_len, HIDDEN)
        yield trits(f"{blk}ssm_out", HIDDEN, value_len)
        yield gains(f"{blk}ssm_norm", VALUE_DIM)
        yield floats(f"{blk}ssm_conv1d.weight", 0.6 * random.standard_normal((channels, CONV)))
        yield floats(f"{blk}ssm_beta.weight", random.standard_normal((VALUES, HIDDEN)) / HIDDEN**0.5)
        yield floats(f"{blk}ssm_alpha.weight", random.standard_normal((VALUES, HIDDEN)) / HIDDEN**0.5)
        yield floats(f"{blk}ssm_a", -random.uniform(0.01, 1.0, VALUES))
        yield floats(f"{blk}ssm_dt.bias", random.uniform(-3.0, 0.5, VALUES))
    yield gains("output_norm", HIDDEN)
    yield trits("output", len(TOKENS), HIDDEN)


def metadata(name, transform, names):
    yield "general.architecture", "qwen35"
    yield "general.name", f"random-{name}"
    for key, content in {
        "block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN, "feed_forward_length": FFN,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM, "rope.freq_base": THETA, "rope.dimension_count": HEAD_DIM // 4,
        "rope.dimension_sections": [3, 3, 2, 0], "attention.layer_norm_rms_epsilon": EPS, "ssm.conv_kernel": CONV,
        "ssm.state_size": KEY_DIM, "ssm.group_count": KEYS, "ssm.time_step_rank": VALUES,
        "ssm.inner_size": VALUES * VALUE_DIM, "full_attention_interval": PERIOD,
    }.items():
        yield f"qwen35.{key}", content
    tables = ("token_embd.weight", "output.weight")
    keys = {
        "version": 1, "block_size": transform.block, "transform": "normalized-sylvester-walsh-hadamard",
        "axis": "input-last-dimension", "sign_mode": "explicit" if transform.signs else "identity",
        "weight_names": [n for n in names if n not in tables or (n == tables[1] and transform.tables)],
    }
    if transform.tables:
        keys["inverse_weight_names"] = [tables[0]]
    if transform.signs:
        keys["sign_widths"] = list(transform.signs)
        keys["sign_values"] = [int(sign) for signs in transform.signs.values() for sign in signs]
    if transform.grouped:
        keys["gdn_v_grouped"] = True
    for key, content in keys.items():
        yield f"prism.hadamard.{key}", content
    yield "tokenizer.ggml.model", "gpt2"
    yield "tokenizer.ggml.pre", "qwen2"
    yield "tokenizer.ggml.tokens", TOKENS
    yield "tokenizer.ggml.token_type", [3 if token in SPECIALS else 1 for token in TOKENS]
    yield "tokenizer.ggml.eos_token_id", 2


def check_network(folder):
    """Compares the network without a transform with `transformers`."""
    golden = load_file(folder / "tiled.safetensors")
    logits = run(read(folder / "tiled.gguf"), golden["ids"], Transform(), (4, 4, 2, 64, 16, 2, 4, 32, 128))
    worst = np.abs(logits[golden["scored"]] - golden["logits"]).max()
    assert worst < 1e-4, worst
    print(f"tiled: {worst:.1e} from transformers")


def main(folder):
    check_network(folder)
    for seed, (name, (block, has_signs, tables, grouped)) in enumerate(MODELS.items()):
        random = np.random.default_rng(seed)
        widths = sorted({HIDDEN, HEADS * HEAD_DIM, VALUES * VALUE_DIM, FFN})
        signs = [random.choice([-1, 1], width) for width in widths] if has_signs else []
        transform, records = Transform(block, signs, tables, grouped), list(tensors(random))
        path = folder / f"{name}.gguf"
        names = [record for record, _, kind, _ in records if kind == Q2_0]
        write(path, metadata(name, transform, names), records)
        ids = random.integers(0, len(TOKENS), PROMPT).astype(np.int32)
        sizes = (LAYERS, HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM // 4, KEYS, VALUES, KEY_DIM, VALUE_DIM)
        logits = run(read(path), ids, transform, sizes)[SCORED].astype(np.float32)
        save_file({"ids": ids, "scored": np.array(SCORED, np.int32), "logits": logits}, folder / f"{name}.safetensors")
        print(f"{name}: logits up to {np.abs(logits).max():.1f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
