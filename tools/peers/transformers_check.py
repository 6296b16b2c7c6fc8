"""Opens packed safetensors written by wf in transformers: python transformers_check.py WF MODEL

Requires torch, transformers and accelerate. Exits with status 1 if the checkpoint cannot be loaded, or if tokens or logits
differ.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
import precision  # noqa: E402

TEXTS = [
    "Once upon a time, there was a little girl named Lily.",
    "  Two spaces, 12345 numbers, it's John's, and\n\n\ttabs.",
]
# Rounding ties of the int8 codes may be resolved differently.
MIN_COSINE = 0.9999
MIN_COSINE_IN_BF16 = 0.99


def wf(binary, *args):
    return subprocess.run([binary, *args], check=True, capture_output=True, text=True).stdout


def check(binary, source, directory):
    path = str(Path(directory) / "packed")
    wf(binary, "convert", source, path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = precision.load(path)
    # As a user would load it: with the type of the checkpoint.
    plain = AutoModelForCausalLM.from_pretrained(path).eval()
    lowest = 1.0
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        ours = json.loads(wf(binary, "tokenize", path, text, "--json"))["ids"]
        assert ids == ours, f"{text!r}: {ids} and {ours}"
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, -1].double().numpy()
            rounded = plain(torch.tensor([ids])).logits[0, -1].double().numpy()
        listed = ",".join(map(str, ids))
        logits = json.loads(wf(binary, "eval", "logits", path, "--ids", listed, "--kv", "f32", "--all", "--json"))["logits"]
        a = np.array(logits)
        lowest = min(lowest, a @ theirs / np.sqrt((a @ a) * (theirs @ theirs)))
        assert a.argmax() == theirs.argmax(), f"{text!r}: best token"
        in_bf16 = a @ rounded / np.sqrt((a @ a) * (rounded @ rounded))
        assert in_bf16 >= MIN_COSINE_IN_BF16, f"{text!r}: cosine {in_bf16} in bf16"
    print(f"packed: {len(TEXTS)} texts have equal tokens, cosine of logits {lowest:.6f}")
    assert lowest >= MIN_COSINE, f"cosine {lowest}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        check(sys.argv[1], sys.argv[2], directory)
