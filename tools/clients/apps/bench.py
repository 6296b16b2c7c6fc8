"""A server with a recorder in front of it, and its own responses for comparison with what a client shows.

Each script of this folder tests one client: `SCRIPT BINARY`.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import version
from pathlib import Path

# Clients of this folder neither report their use nor look for newer versions.
os.environ.update(
    DO_NOT_TRACK="1", ANONYMIZED_TELEMETRY="False", OTEL_SDK_DISABLED="true", LITELLM_LOCAL_MODEL_COST_MAP="True",
    HAYSTACK_TELEMETRY_ENABLED="False", DEEPEVAL_TELEMETRY_OPT_OUT="YES", CREWAI_DISABLE_TELEMETRY="true",
    OPENAI_AGENTS_DISABLE_TRACING="1", OPENAI_API_KEY="none", ANTHROPIC_API_KEY="none", HF_HUB_OFFLINE="1",
)
sys.path.append(str(Path(__file__).parent.parent))

import long_context
from recorder import Recorder
from server import Server

STORY = "Tell me a story about a cat"


class Bench:
    """Properties: `url`, `base_url` (with `/v1`) of the recorder, `home`, an empty folder, and `requests`."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.home = Path(self.folder.name)
        model = self.home / "long.gguf"
        long_context.write(model)
        flags = ("--served-model-name", "wf-demo", "--temperature", "0", "--frequency-penalty", "1", *self.flags)
        self.server = Server(sys.argv[1], str(model), *flags).__enter__()
        self.recorder = Recorder(self.server.port)
        self.url, self.requests = self.recorder.url, self.recorder.requests
        self.base_url = self.url + "/v1"
        return self

    def __exit__(self, *_):
        self.recorder.close()
        self.server.__exit__()
        self.folder.cleanup()

    def post(self, path, body):
        request = urllib.request.Request(self.server.url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=300) as response:
            return json.load(response)

    def chat(self, messages=STORY, **settings):
        """Returns the server's own text, by default 24 greedy tokens."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body = {"model": "wf-demo", "messages": messages, "max_tokens": 24, "temperature": 0, **settings}
        return self.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]

    def embeddings(self, texts):
        body = {"model": "wf-demo", "input": texts}
        return [one["embedding"] for one in self.post("/v1/embeddings", body)["data"]]

    def run(self, *command, timeout=300, stdin=None, **env):
        """Runs a program in the empty folder, as its home. Returns its standard output."""
        env = {**os.environ, "HOME": str(self.home), "TERM": "dumb", "NO_COLOR": "1", **env}
        env.pop("XDG_CONFIG_HOME", None)
        done = subprocess.run(
            [str(word) for word in command], cwd=self.home, env=env, input=stdin or "", text=True,
            capture_output=True, timeout=timeout,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.recorder}"
        return done.stdout

    def last(self, path):
        """Returns the last request to a path."""
        return [one for one in self.requests if one.path.split("?")[0] == path][-1]

    def none_refused(self, *paths, but=()):
        """Checks that the client has sent requests to these paths, and that none but those in `but` was refused."""
        refused = [one for one in self.requests if one.status >= 400 and one.path not in but]
        assert not refused, "\n".join(f"{one} {one.body[:500]} {one.text[:500]}" for one in refused)
        used = {one.path.split("?")[0] for one in self.requests}
        assert used.issuperset(paths), used


def ok(package):
    print(f"{package} {version(package)}: ok")
