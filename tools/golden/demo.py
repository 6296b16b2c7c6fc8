"""Records the output of `transformers` for prompts with a real model: ids, likelihood, logits, greedy text.

    python demo.py MODEL OUT.json             writes the golden file
    python demo.py MODEL --compare OLD.json   computes the values again and prints the differences

Float32 results depend on the machine: if an activation is at a rounding tie, another order of additions flips its int8
code, and one flip changes logits by up to 0.2. The float64 values (`_f64`) are reproducible to 1e-6.
"""

import argparse
import json
import pathlib

import torch
from transformers import AutoTokenizer

from precision import library_in_float64, load

TEXTS = [
    "Once upon a time, there was a little",
    "The dog was very happy because",
    "Lily and Tom went to the park. They saw a big",
    "It was a dark night and the wind",
    "Numbers: 1, 2, 3, 4,",
    "Café, naïve, 東京 and 😀 are words with bytes.",
    "   leading spaces\n\n\tand tabs",
    "A",
]
CHATS = [
    [{"role": "user", "content": "Hello!"}],
    [{"role": "user", "content": "What is the capital of France?"}],
    [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Tell me a story about a dragon."},
    ],
    [{"role": "user", "content": "What is 7 + 5?"}],
    [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello! How can I help you?"},
        {"role": "user", "content": "Who are you?"},
    ],
]
GREEDY_TOKENS = 48
TOP = 20
PROBES = 32


def render(tokenizer, kind, content):
    """Returns the prompt as text, with special tokens."""
    if kind == "text":
        return tokenizer.bos_token + content
    return tokenizer.apply_chat_template(content, tokenize=False, add_generation_prompt=True)


@torch.no_grad()
def score(model, ids):
    """Returns the last row of logits and the mean negative log-likelihood of all tokens but the first."""
    ids = torch.tensor([ids])
    logits = model(ids, use_cache=False).logits[0]
    return logits[-1], torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item()


@torch.no_grad()
def greedy(model, ids, end_tokens):
    """Returns the greedy continuation, with its end token, and the margin of each token."""
    tokens, margins, cache, fed = [], [], None, ids
    while len(tokens) < GREEDY_TOKENS and (not tokens or tokens[-1] not in end_tokens):
        result = model(torch.tensor([fed]), past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        best = result.logits[0, -1].topk(2)
        fed = [best.indices[0].item()]
        tokens += fed
        margins.append(round((best.values[0] - best.values[1]).item(), 4))
    return tokens, margins


def rounded(values, digits):
    return [round(value, digits) for value in values.tolist()]


def entry(single, double, tokenizer, kind, content):
    """Returns the record of one prompt."""
    rendered = render(tokenizer, kind, content)
    ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    logits, mean_nll = score(single, ids)
    best = logits.topk(TOP)
    probes = torch.linspace(0, len(logits) - 1, PROBES, dtype=torch.float64).long()
    end_tokens = single.generation_config.eos_token_id
    tokens, margins = greedy(single, ids, end_tokens if isinstance(end_tokens, list) else [end_tokens])
    with library_in_float64():
        logits_f64, mean_nll_f64 = score(double, ids)
    return {
        "kind": kind,
        "input": content,
        "rendered": rendered,
        "ids": ids,
        "mean_nll": mean_nll,
        "top_ids": best.indices.tolist(),
        "top_logits": rounded(best.values, 5),
        "probe_ids": probes.tolist(),
        "probe_logits": rounded(logits[probes], 5),
        "greedy": tokens,
        "margins": margins,
        "greedy_text": tokenizer.decode(tokens),
        "probe_logits_f64": rounded(logits_f64[probes], 6),
        "mean_nll_f64": mean_nll_f64,
    }


EXACT = ("kind", "input", "rendered", "ids", "probe_ids")


def compare(new, old):
    """Prints the differences of each prompt. Exact fields must be equal, float64 fields equal up to rounding."""
    for ours, theirs in zip(new, old, strict=True):
        differing = [field for field in EXACT if ours[field] != theirs[field]]
        distances = {
            field: max(abs(a - b) for a, b in zip(as_list(ours[field]), as_list(theirs[field]), strict=True))
            for field in ("mean_nll", "probe_logits", "mean_nll_f64", "probe_logits_f64")
        }
        pairs = list(zip(ours["greedy"], theirs["greedy"]))
        agreed = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        greedy_verdict = f"greedy equal ({len(ours['greedy'])} tokens)"
        if ours["greedy"] != theirs["greedy"]:
            margin = theirs["margins"][agreed] if agreed < len(theirs["margins"]) else None
            greedy_verdict = f"greedy parts after {agreed} tokens, where the margin was {margin}"
        numbers = ", ".join(f"{field} {distance:.1e}" for field, distance in distances.items())
        print(f"{ours['rendered'][:40]!r}: differing {differing}; {numbers}; {greedy_verdict}")


def as_list(value):
    return value if isinstance(value, list) else [value]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--compare", type=pathlib.Path)
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    single, double = load(arguments.model), load(arguments.model, torch.float64)
    prompts = [("text", text) for text in TEXTS] + [("chat", chat) for chat in CHATS]
    entries = [entry(single, double, tokenizer, kind, content) for kind, content in prompts]
    if arguments.compare:
        compare(entries, json.loads(arguments.compare.read_text()))
    if arguments.out:
        arguments.out.write_text(json.dumps(entries, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
