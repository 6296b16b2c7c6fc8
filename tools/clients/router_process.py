"""Starts sglang-router in front of servers for the duration of a `with` block."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from server import until


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


class Router:
    def __init__(self, urls, policy, *flags):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.command = [
            sys.executable, "-m", "sglang_router.launch_router", "--worker-urls", *urls, "--policy", policy,
            "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1], "--prometheus-port", str(free_port()),
            "--health-check-interval-secs", "1", "--health-success-threshold", "1",
            "--health-failure-threshold", "1", *flags,
        ]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.answers, 60)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def answers(self, text="Once"):
        body = {"text": text, "sampling_params": {"max_new_tokens": 1}}
        try:
            post(self.url, "/generate", body)
            return True
        except urllib.error.HTTPError:
            return False

    def healthy(self):
        return sum(known["is_healthy"] for known in json.loads(get(self.url, "/workers"))["workers"])
