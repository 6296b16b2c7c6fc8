"""Runs sglang-router with two workers: routing by cache; one worker is killed and restarted."""

import json
import sys

from router_process import Router, free_port, get, post
from server import Server, until

PREFIX = "Once upon a time there was a small cat who liked to sleep in the sun. " * 12


def main(binary):
    ports = [free_port(), free_port()]
    first, second = (Server(binary, port=port) for port in ports)
    with first, second, Router([first.url, second.url], "cache_aware") as router:
        routed(router.url, first, second)
        killed_and_back(binary, router, first, second, ports[0])


def routed(url, first, second):
    chat = {"model": "wf-demo", "max_tokens": 8, "temperature": 0,
            "messages": [{"role": "user", "content": PREFIX}]}
    cached = []
    for end in ["Why?", "Where?", "When?", "Who?"]:
        chat["messages"][0]["content"] = PREFIX + end
        reply = json.loads(post(url, "/v1/chat/completions", chat))
        cached.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == 0 and min(cached[1:]) > 100, f"the same prefix was routed to another worker: {cached}"
    text = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 6, "temperature": 0}}
    whole = json.loads(post(url, "/generate", text))
    for worker in [first.url, second.url]:
        assert json.loads(post(worker, "/generate", text))["text"] == whole["text"]
    events = post(url, "/generate", {**text, "stream": True}).strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2].removeprefix("data: "))["text"] == whole["text"]
    stream = post(url, "/v1/chat/completions", {**chat, "stream": True})
    assert stream.strip().endswith("data: [DONE]")


def killed_and_back(binary, router, worker, other, port):
    def kill(worker):
        worker.process.kill()
        worker.process.wait()
        until(lambda: router.healthy() == 1, 60)

    assert router.healthy() == 2
    kill(worker)
    assert all(router.answers(f"Story {i}") for i in range(8)), "the other worker must respond"
    with Server(binary, port=port) as again:
        until(lambda: router.healthy() == 2, 90)
        # The router may choose either of two workers for a new text.
        kill(other)
        until(lambda: router.answers() and has_worked(again), 60)


def has_worked(worker):
    return "wf:prompt_tokens_total 0\n" not in get(worker.url, "/metrics")


main(sys.argv[1])
print("sglang-router: ok")
