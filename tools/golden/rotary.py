"""Records rotary frequencies of every kind of scaling, as `transformers` computes them for one pass of a length.

    python tools/golden/rotary.py tests/data/rotary.json
"""

import json
import pathlib
import sys

import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

HEAD_DIM, THETA, CONTEXT = 64, 500_000.0, 4096
SHORT = [1.0 + 0.01 * at for at in range(HEAD_DIM // 2)]
LONG = [1.0 + 0.75 * at for at in range(HEAD_DIM // 2)]
ORIGINAL = {"original_max_position_embeddings": 512}
SCALINGS = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 3.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
    {"rope_type": "yarn", "factor": 8.0, **ORIGINAL},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 24.0, "beta_slow": 2.0, "attention_factor": 1.25, **ORIGINAL},
    {"rope_type": "yarn", "factor": 6.0, "mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False, **ORIGINAL},
    {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, **ORIGINAL},
    {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "attention_factor": 1.5, **ORIGINAL},
]
# Lengths of a pass: within the original context, beyond it, and beyond the one of the file.
LENGTHS = [300, 600, 4096, 16384]
POSITIONS = [0, 1, 100, 299, 599, 4095, 16383]


def record(scaling, length):
    config = Qwen3Config(
        head_dim=HEAD_DIM, max_position_embeddings=CONTEXT, rope_parameters={"rope_theta": THETA, **scaling}
    )
    rotary = Qwen3RotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1), torch.arange(length)[None])
    positions = [position for position in POSITIONS if position < length]
    half = HEAD_DIM // 2
    bits = lambda values: values[:half].contiguous().view(torch.int32).tolist()
    return {
        "scaling": scaling, "length": length, "factor": float(rotary.attention_scaling),
        "frequencies": bits(rotary.inv_freq),
        "angles": [{"position": at, "cos": cos[0, at, :half:7].tolist(), "sin": sin[0, at, :half:7].tolist()} for at in positions],
    }


def main(path):
    lengths = lambda kind: LENGTHS if kind in ("dynamic", "longrope") else LENGTHS[2:3]
    records = [record(scaling, length) for scaling in SCALINGS for length in lengths(scaling["rope_type"])]
    shared = {"head_dim": HEAD_DIM, "theta": THETA, "context": CONTEXT}
    lines = ",\n".join(json.dumps(one) for one in records)
    path.write_text(json.dumps(shared)[:-1] + ', "records": [\n' + lines + "\n]}\n")


main(pathlib.Path(sys.argv[1]))
