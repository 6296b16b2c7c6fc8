"""Runs sglang-router with four workers under load: one is lost, all are restarted in turn, and routing by cache is
compared with routing in turn."""

import contextlib
import json
import random
import signal
import sys
import threading
import urllib.error

from router_process import Router, free_port, post
from server import Server, until

WORKERS = 4
CLIENTS = 8
# Conversations with a system prompt and a history of their own.
CONVERSATIONS = 24
TURNS = 4
HISTORY = "The cat went to the {} and saw a {} near the {}. "
WORDS = "garden river house forest tree boat bird dog fish flower stone bridge".split()


class Load:
    """Clients that send requests until told to stop. Answers are compared with those of a worker alone."""

    def __init__(self, url, expected):
        self.url, self.expected = url, expected
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.done, self.failures = 0, []
        self.threads = [threading.Thread(target=self.run, args=(at,)) for at in range(CLIENTS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self, at):
        chance = random.Random(at)
        while not self.stop.is_set():
            prompt = chance.choice(list(self.expected))
            try:
                answer = complete(self.url, prompt)
                problem = None if answer == self.expected[prompt] else f"another answer: {answer!r}"
            except (OSError, urllib.error.HTTPError, ValueError) as error:
                problem = f"{error} {getattr(error, 'read', lambda: b'')()[:200]!r}"
            with self.lock:
                self.done += 1
                if problem:
                    self.failures.append(problem)

    def progress(self, requests=40):
        end = self.done + requests
        until(lambda: self.done >= end, 120)


def complete(url, prompt):
    body = {"model": "wf-demo", "prompt": prompt, "max_tokens": 12, "temperature": 0}
    return json.loads(post(url, "/v1/completions", body))["choices"][0]["text"]


class Fleet(contextlib.ExitStack):
    """The workers."""

    def __init__(self, binary):
        super().__init__()
        self.binary = binary

    def __enter__(self):
        self.workers = [self.start(free_port()) for _ in range(WORKERS)]
        return self

    def start(self, port):
        return self.enter_context(Server(self.binary, "--threads", "1", port=port))

    def stop(self, at, number):
        """Ends a worker. Returns its exit status."""
        return self.workers[at].stop(number)

    def restart(self, at):
        self.workers[at] = self.start(self.workers[at].port)

    def urls(self):
        return [worker.url for worker in self.workers]


def lost_and_restarted(binary):
    with Fleet(binary) as fleet, Router(fleet.urls(), "cache_aware") as router:
        prompts = [f"Once there was a {word}" for word in WORDS]
        expected = {prompt: complete(fleet.urls()[0], prompt) for prompt in prompts}
        with Load(router.url, expected) as lossy:
            lossy.progress()
            fleet.stop(0, signal.SIGKILL)
            lossy.progress(80)
            until(lambda: router.healthy() == WORKERS - 1, 60)
        # Requests that the worker was computing may be lost with it.
        assert len(lossy.failures) <= CLIENTS, lossy.failures[:3]
        fleet.restart(0)
        until(lambda: router.healthy() == WORKERS, 90)
        with Load(router.url, expected) as rolling:
            for at in range(WORKERS):
                rolling.progress()
                # A server that stops finishes what it computes; the router sends what it turns away elsewhere.
                assert fleet.stop(at, signal.SIGTERM) == 0
                rolling.progress()
                fleet.restart(at)
                until(lambda: router.healthy() == WORKERS, 90)
        assert not rolling.failures, (len(rolling.failures), rolling.failures[:3])
        return lossy, rolling


def cached_share(binary, policy):
    """Share of the prompt tokens of conversations that were in a cache."""
    with Fleet(binary) as fleet, Router(fleet.urls(), policy) as router:
        chance = random.Random(5)
        prompts = {at: HISTORY.format(*chance.sample(WORDS, 3)) * 12 for at in range(CONVERSATIONS)}
        turns = [at for at in range(CONVERSATIONS) for _ in range(TURNS)]
        chance.shuffle(turns)
        prompt_tokens = cached_tokens = 0
        for at in turns:
            body = {"model": "wf-demo", "prompt": prompts[at], "max_tokens": 4, "temperature": 0}
            reply = json.loads(post(router.url, "/v1/completions", body))
            prompt_tokens += reply["usage"]["prompt_tokens"]
            cached_tokens += reply["usage"]["prompt_tokens_details"]["cached_tokens"]
            prompts[at] += reply["choices"][0]["text"] + " Then " + HISTORY.format(*chance.sample(WORDS, 3))
        return cached_tokens / prompt_tokens


def main(binary):
    lossy, rolling = lost_and_restarted(binary)
    print(f"sglang-router: a worker lost under load: {len(lossy.failures)} of {lossy.done} requests failed")
    print(f"sglang-router: rolling restart under load: 0 of {rolling.done} requests failed")
    shares = {policy: cached_share(binary, policy) for policy in ("cache_aware", "round_robin")}
    print("sglang-router: cached prompt tokens: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))
    assert shares["cache_aware"] > shares["round_robin"] + 0.2, shares


main(sys.argv[1])
