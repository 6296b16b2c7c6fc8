"""Opens GGUF files written by wf in llama.cpp: python llama_cpp_check.py WF MODEL

Requires llama-cpp-python. Exits with status 1 if a file cannot be opened, or if tokens or logits differ.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

TEXTS = [
    "Once upon a time, there was a little girl named Lily.",
    "  Two spaces, 12345 numbers, it's John's, and\n\n\ttabs.",
    "Caf\u00e9 \u201cquotes\u201d \u65e5\u672c\u8a9e \U0001f600!",
]
# Both sides quantize activations to eight bits, but in blocks of different lengths.
MIN_COSINE = 0.99


def wf(binary, *args):
    return subprocess.run([binary, *args], check=True, capture_output=True, text=True).stdout


def check(binary, source, encoding, directory):
    path = str(Path(directory) / f"{encoding}.gguf")
    wf(binary, "convert", source, path, "--encoding", encoding)
    theirs = llama_cpp.Llama(path, n_ctx=128, verbose=False, logits_all=True, n_threads=2)
    lowest = 1.0
    for text in TEXTS:
        ids = theirs.tokenize(text.encode(), add_bos=False, special=False)
        ours = json.loads(wf(binary, "tokenize", path, text, "--json"))["ids"]
        assert ids == ours, f"{encoding}: {text!r}: {ids} and {ours}"
        theirs.reset()
        theirs.eval(ids)
        listed = ",".join(map(str, ids))
        logits = json.loads(
            wf(binary, "eval", "logits", path, "--ids", listed, "--activation", "silu", "--kv", "f32", "--all", "--json")
        )["logits"]
        a, b = np.array(logits), np.array(theirs.scores[len(ids) - 1])
        lowest = min(lowest, a @ b / np.sqrt((a @ a) * (b @ b)))
    print(f"{encoding}: {len(TEXTS)} texts have equal tokens, cosine of logits {lowest:.5f}")
    assert lowest >= MIN_COSINE, f"{encoding}: cosine {lowest}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        for name in ["tq1_0", "tq2_0", "q2_0"]:
            check(sys.argv[1], sys.argv[2], name, directory)
