"""A proxy that records requests and passes bytes on unchanged, streams included."""

import http.client
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes
    status: int = 0
    answer: bytes = b""

    def __str__(self):
        return f"{self.method} {self.path}: {self.status}"

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.answer.decode()

    def events(self):
        """Returns the data of server-sent events."""
        lines = [line[5:].strip() for line in self.text.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


class Recorder:
    def __init__(self, port):
        self.requests = requests = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                request = Request(self.command, self.path, dict(self.headers), body)
                requests.append(request)
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value if name.lower() != "host" else f"127.0.0.1:{port}")
                server.endheaders(body)
                response = server.getresponse()
                request.status = response.status
                # The end of the connection is the end of the body.
                self.send_response_only(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                while piece := response.read1(65536):
                    request.answer += piece
                    self.wfile.write(piece)
                    self.wfile.flush()
                self.close_connection = True

            do_GET = do_POST = do_HEAD = do_DELETE = do_OPTIONS = do_PUT = forward

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A client that closes its connection early is none."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __str__(self):
        return "\n".join(str(request) for request in self.requests)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
