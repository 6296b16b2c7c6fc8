"""Open WebUI: its lists of models, and chats through its server by OpenAI's and by Ollama's API."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench import STORY, Bench, ok

START_SECONDS = 300


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class WebUi:
    """The server of Open WebUI without accounts, connected to `bench` by both APIs."""

    def __init__(self, bench):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = bench.home / "open-webui.log"
        env = {
            **os.environ, "HOME": str(bench.home), "DATA_DIR": str(bench.home), "WEBUI_AUTH": "False",
            "WEBUI_SECRET_KEY": "none", "OFFLINE_MODE": "True", "OPENAI_API_BASE_URL": bench.base_url,
            "OLLAMA_BASE_URL": bench.url, "ENABLE_OLLAMA_API": "True", "RAG_EMBEDDING_ENGINE": "openai",
            "ENABLE_TITLE_GENERATION": "False", "ENABLE_TAGS_GENERATION": "False", "ENABLE_FOLLOW_UP_GENERATION": "False",
        }
        program = Path(sys.executable).with_name("open-webui")
        command = [program, "serve", "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1]]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=bench.home, env=env, stdout=log, stderr=log)

    def __enter__(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.is_healthy():
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.5)
        self.token = None
        self.token = self.call("/api/v1/auths/signin", {"email": "", "password": ""})["token"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def is_healthy(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=10).status == 200
        except OSError:
            return False

    def open(self, path, body=None):
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            return urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=300)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:2000]}") from error

    def call(self, path, body=None):
        with self.open(path, body) as response:
            return json.load(response)


def streamed(lines):
    """Returns the text of a streamed chat."""
    chunks = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", []))


with Bench() as bench, WebUi(bench) as ui:
    models = {model["id"]: model["owned_by"] for model in ui.call("/api/models")["data"]}
    assert "wf-demo" in models or "wf-demo:latest" in models, models
    chat = {"model": "wf-demo", "messages": [{"role": "user", "content": STORY}], "max_tokens": 24, "temperature": 0}
    expected = bench.chat()
    whole = ui.call("/openai/chat/completions", chat)
    assert whole["choices"][0]["message"]["content"] == expected, whole
    with ui.open("/openai/chat/completions", {**chat, "stream": True}) as lines:
        assert streamed(lines) == expected
    [name] = [model["model"] for model in ui.call("/ollama/api/tags")["models"]]
    body = {"model": name, "messages": chat["messages"], "stream": False, "options": {"num_predict": 24, "temperature": 0}}
    assert ui.call("/ollama/api/chat", body)["message"]["content"] == expected
    # The chat window sends its requests there, whichever API a model comes from.
    for model in models:
        if model.startswith("wf-demo"):
            with ui.open("/api/chat/completions", {**chat, "model": model, "stream": True}) as lines:
                assert streamed(lines) == expected, model
    bench.none_refused("/v1/models", "/v1/chat/completions", "/api/tags", "/api/chat")
ok("open-webui")
