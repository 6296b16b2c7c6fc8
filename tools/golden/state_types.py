"""Measures what states of recurrent layers in fewer bits cost, on the random hybrids of `tests/data/qwen35`.

NumPy runs them in float64 and rounds the state of a head after each token, as a type that stores it would. Random decays forget half
within a hundred tokens; those of published models are near 1, so the same is measured with decays of a fiftieth. Differences
are relative to the root mean square of the logits.

    python tools/golden/state_types.py tests/data/qwen35
"""

import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file

from hadamard import Transform, read, run

SIZES = {"tiled": (4, 4, 2, 64, 16, 2, 4, 32, 128), "equal": (4, 4, 2, 64, 16, 2, 2, 64, 128)}


def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(float)


def int8(x):
    """A scale for each row of the state."""
    scale = np.abs(x).max(-1, keepdims=True) / 127
    return np.rint(x / np.where(scale == 0, 1, scale)) * scale


TYPES = {
    "f32": lambda x: x.astype(np.float32).astype(float), "f16": lambda x: x.astype(np.float16).astype(float),
    "bf16": bf16, "int8": int8,
}


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def main(folder):
    for name, sizes in SIZES.items():
        ids = load_file(folder / f"{name}.safetensors")["ids"]
        tensors = read(folder / f"{name}.gguf")
        tensors.setdefault("output", tensors["token_embd"])
        for slower in (1, 50):
            changed = {key: value / slower if key.endswith("ssm_a") else value for key, value in tensors.items()}
            exact = run(changed, ids, Transform(), sizes)
            shares, size = softmax(exact), np.sqrt((exact**2).mean())
            for kind, rounded in TYPES.items():
                logits = run(changed, ids, Transform(), sizes, rounded)
                off = np.abs(logits - exact) / size
                distance = (shares * np.log(shares / softmax(logits))).sum(-1).mean()
                same = (logits.argmax(-1) == exact.argmax(-1)).mean()
                print(f"{name}, decays / {slower}, {kind}: median {np.median(off):.1e}, largest {off.max():.1e}, "
                      f"KL {distance:.1e}, same best {100 * same:.1f} %")


main(pathlib.Path(sys.argv[1]))
