"""Fills blocks with the demo model in float64, in a loop without a cache, and records each pass.

    python blocks.py MODEL REFERENCE.json OUT.json

REFERENCE.json contains the prompts and the float32 results of the same loop on another machine. A record of a pass
consists of the block after it (null for a mask) and its margin: the distance of the closest decision from its
alternative. Float32 rounding changes a probability by up to 0.05 if an activation is at a rounding tie. Correct
implementations may therefore differ in passes with a smaller margin, and in all passes after them.
"""

import argparse
import json
import pathlib

import torch

from precision import library_in_float64, load

BLOCK, PART, MASK, STOPS, TOKENS = 32, 8, 3, (1, 2), 64


@torch.no_grad()
def probabilities(model, context, block):
    """Returns one row per token of the block: the logits of the token after it."""
    tokens = context + block
    sees = torch.full((len(tokens), len(tokens)), float("-inf"), dtype=torch.float64).triu(1)
    sees[len(context) :, :] = 0
    with library_in_float64():
        logits = model(torch.tensor([tokens]), attention_mask=sees[None, None], use_cache=False).logits[0]
    logits[:, MASK] = float("-inf")
    return torch.softmax(logits[len(context) :], -1)


def fill(model, context, known, threshold):
    """Fills a block whose first token is known. Yields its tokens and the margin after each pass."""
    block = [known] + [MASK] * (BLOCK - 1)
    for first in range(0, BLOCK, PART):
        while masks := [at for at in range(first, first + PART) if block[at] == MASK]:
            rows = probabilities(model, context, block)[[at - 1 for at in masks]]
            best = rows.topk(2)
            sure = best.values[:, 0]
            kept = [at for at in range(len(masks)) if sure[at] > threshold]
            margin = (sure - threshold).abs().min().item()
            if not kept:
                kept = [int(sure.argmax())]
                if len(masks) > 1:
                    two = sure.topk(2).values
                    margin = min(margin, (two[0] - two[1]).item())
            margin = min([margin] + [(best.values[at, 0] - best.values[at, 1]).item() for at in kept])
            for at in kept:
                block[masks[at]] = int(best.indices[at, 0])
            yield block, margin


def reply(model, prompt, threshold):
    tokens, passes = list(prompt), []
    while len(tokens) - len(prompt) < TOKENS:
        for block, margin in fill(model, tokens[:-1], tokens[-1], threshold):
            shown = [None if token == MASK else token for token in block[1:]]
            passes.append({"block": shown, "margin": round(margin, 5)})
        tokens += block[1:]
        if any(token in STOPS for token in block[1:]):
            break
    return passes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("reference", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    model = load(arguments.model, torch.float64)
    recorded = []
    for case in json.loads(arguments.reference.read_text()):
        for threshold in (0.5, 0.7, 0.9):
            passes = reply(model, case["ids"], threshold)
            print(case["name"], threshold, len(passes), min(p["margin"] for p in passes), flush=True)
            recorded.append({"ids": case["ids"], "threshold": threshold, "passes": passes})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in recorded)
    arguments.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
