"""Writes TL1 and TL2 data with the functions of bitnet.cpp's converter: python tiles.py BITNET_DIRECTORY OUT_DIRECTORY

BITNET_DIRECTORY is a checkout of microsoft/BitNet, of which only the functions that order the weights are used. The trits
come from the generator `trits`, which the Rust test implements, too.
"""

import ast
import os
import sys
import tempfile
from pathlib import Path
from typing import Tuple

import numpy as np

# name, rows, columns, and the tiles: rows, columns, rows of a strip
CASES = [
    ("tl1", 256, 128, 128, 64, 32),
    ("tl1", 128, 128, 128, 64, 64),
    ("tl2", 128, 224, 64, 96, 32),
    ("tl2", 64, 192, 32, 192, 32),
]


def trits(count):
    state, out = 7, np.empty(count, np.float32)
    for at in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out[at] = (state >> 33) % 3 - 1.0
    return out


def converter(directory):
    """Loads the functions of the converter without its imports and its command line."""
    source = (Path(directory) / "utils/convert-hf-to-gguf-bitnet.py").read_text()
    wanted = ("process_tl1", "preprocess_")
    parts = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name.startswith(wanted)]
    names = {"np": np, "Tuple": Tuple}
    exec(compile(ast.Module(parts, []), "converter", "exec"), names)
    return {"tl1": names["preprocess_weights_tl1"], "tl2": names["preprocess_weights_tl2"]}


def main(bitnet, out):
    functions, out = converter(bitnet), Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        os.mkdir("include")
        for name, rows, cols, bm, bk, bmm in CASES:
            Path("include/kernel_config.ini").write_text(f"[k]\nm={rows}\nk={cols}\nbm={bm}\nbk={bk}\nbmm={bmm}\n")
            packed = functions[name](trits(rows * cols).reshape(rows, cols))
            packed.astype(np.uint8).tofile(out / f"{name}-{rows}x{cols}-{bm}x{bk}x{bmm}.bin")


if __name__ == "__main__":
    main(*sys.argv[1:])
