"""Runs the commands of docs/start.md, with a stand-in for the Hub that has the demo model under the name of a large one."""

import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).parent.parent.parent
REPO = "microsoft/bitnet-b1.58-2B-4T"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Text that each block must print.
EXPECTED = {
    "install": ["all checks passed", "tok/s"],
    "model": ["bitnet-2b", "tok/s"],
    "serve": ['"object":"chat.completion"', '"finish_reason"'],
    "webui": ['"object":"list"', "data: [DONE]"],
    "convert": ["my-model.gguf", "tok/s", '"id":"my-model"'],
}


class Hub(http.server.ThreadingHTTPServer):
    """Serves the files of a directory as a repository of the Hub."""

    def __init__(self, folder):
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def listing(self):
        def entry(name, content):
            digest = hashlib.sha256(content).hexdigest()
            return {"rfilename": name, "size": len(content), "blobId": "0" * 40, "lfs": {"sha256": digest, "size": len(content)}}

        return {"sha": COMMIT, "siblings": [entry(name, content) for name, content in self.files.items()]}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.split("?")[0]
        name = path.removeprefix(f"/{REPO}/resolve/{COMMIT}/")
        if path.startswith(f"/api/models/{REPO}/revision/"):
            content = json.dumps(self.server.listing()).encode()
        elif name in self.server.files:
            content = self.server.files[name]
        else:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def blocks():
    text = (ROOT / "docs/start.md").read_text()
    found = dict(re.findall(r"```sh\n#! (\w+)\n(.*?)```", text, re.DOTALL))
    assert found.keys() == EXPECTED.keys(), found.keys()
    return found


def run(name, script, folder, env):
    """Runs a block as its reader would, and then ends the servers that it started."""
    script = f"set -euo pipefail\n{script}"
    shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, text=True, start_new_session=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(shell.stdout), daemon=True)
    reader.start()
    try:
        status = shell.wait(timeout=300)
    finally:
        # The servers of the block, which are in the session of its shell.
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    reader.join(timeout=10)
    output = "".join(lines)
    assert status == 0, f"{name}: exit status {status}\n{output}"
    for text in EXPECTED[name]:
        assert text in output, f"{name}: no {text!r} in\n{output}"


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "bin").mkdir()
        shutil.copy(binary, folder / "bin/wf")
        subprocess.run([binary, "convert", ROOT / "crates/wf/assets/demo.gguf", folder / "my-model", "--json"],
                       check=True, stdout=subprocess.DEVNULL)
        hub = Hub(folder / "my-model")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("WF_", "HF_"))}
        env |= {"PATH": f"{folder / 'bin'}:{env['PATH']}", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
                "XDG_CACHE_HOME": str(folder / "cache"), "NO_PROXY": "*"}
        for name, script in blocks().items():
            # Ports of the document may be in use here.
            ports = {port: free_port() for port in ("30000", "30001", "30002")}
            for port, free in ports.items():
                script = script.replace(port, free)
            run(name, script, folder, env | {"WF_PORT": ports["30000"]})
    print(f"docs/start.md: {len(EXPECTED)} blocks of commands ran")


main(sys.argv[1])
