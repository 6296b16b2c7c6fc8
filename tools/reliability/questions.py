"""A fixed set of requests, whose answers must be the same bytes after whatever happened to a server."""

import asyncio

from process import check
from wire import ask

CHAT = [{"role": "user", "content": "Tell me about a small dog"}]
QUESTIONS = [
    ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "seed": 1, "logprobs": 2}),
    ("/v1/completions", {"prompt": "The cat", "max_tokens": 12, "seed": 7, "logprobs": 2}),
    ("/v1/completions", {"prompt": "One day", "max_tokens": 12, "seed": 3, "decode": "diffusion"}),
    ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 12, "seed": 9, "decode": "drafted"}),
    ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 12, "seed": 9, "regex": "[a-z ]{4,20}"}),
    ("/v1/embeddings", {"input": "a small dog", "encoding_format": "base64"}),
    ("/tokenize", {"prompt": "a small dog"}),
]
# Ids, times and the state of the cache may differ.
VARYING = {"id", "created", "timings", "prompt_tokens_details"}


def constant(value):
    return {name: part for name, part in value.items() if name not in VARYING | {"usage"}} | {
        "usage": {name: part for name, part in value.get("usage", {}).items() if name not in VARYING}
    }


async def answers(server, seconds=120):
    """Returns the answers to all questions, sent together."""
    sent = [ask(server, "POST", path, body, seconds=seconds) for path, body in QUESTIONS]
    responses = await asyncio.gather(*sent)
    for response, (path, body) in zip(responses, QUESTIONS):
        check(response.status == 200, f"{path} {body} got {response.status}: {response.body[:300]}")
    return [constant(response.json()) for response in responses]
