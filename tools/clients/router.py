"""Runs sglang-router with two workers: routing by cache; one worker is killed and restarted."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from server import Server, until

PREFIX = "Once upon a time there was a small cat who liked to sleep in the sun. " * 12


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url, path, body):
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return answer.read().decode()


def answered(url, text="Once"):
    body = {"text": text, "sampling_params": {"max_new_tokens": 1}}
    try:
        post(url, "/generate", body)
        return True
    except urllib.error.HTTPError:
        return False


def main(binary):
    ports = [free_port(), free_port()]
    first, second = (Server(binary, port=port) for port in ports)
    with first, second:
        router_port = free_port()
        router = subprocess.Popen(
            [sys.executable, "-m", "sglang_router.launch_router", "--worker-urls", first.url,
             second.url, "--policy", "cache_aware", "--host", "127.0.0.1", "--port",
             str(router_port), "--prometheus-port", str(free_port()),
             "--health-check-interval-secs", "1", "--health-success-threshold", "1",
             "--health-failure-threshold", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        url = f"http://127.0.0.1:{router_port}"
        try:
            until(lambda: answered(url), 60)
            routed(url, first, second)
            killed_and_back(binary, url, first, second, ports[0])
        finally:
            router.kill()
            router.wait()


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


def killed_and_back(binary, url, worker, other, port):
    def healthy():
        return sum(known["is_healthy"] for known in json.loads(get(url, "/workers"))["workers"])

    def kill(worker):
        worker.process.kill()
        worker.process.wait()
        until(lambda: healthy() == 1, 60)

    assert healthy() == 2
    kill(worker)
    assert all(answered(url, f"Story {i}") for i in range(8)), "the other worker must respond"
    with Server(binary, port=port) as again:
        until(lambda: healthy() == 2, 90)
        # The router may choose either of two workers for a new text.
        kill(other)
        until(lambda: answered(url) and has_worked(again), 60)


def has_worked(worker):
    return "wf:prompt_tokens_total 0\n" not in get(worker.url, "/metrics")


main(sys.argv[1])
print("sglang-router: ok")
