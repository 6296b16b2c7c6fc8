"""A server in a process of its own: the program ``wf serve``."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ._errors import ServerError
from ._program import program

if TYPE_CHECKING:
    import openai

# The server announces its address on standard output when the model is loaded.
_ADDRESS = re.compile(rb"https?://[^\s/]+:\d+")
# Time beyond `drain` that a server may take to stop.
_STOP_SECONDS = 10.0


class Server:
    """Serves a model on a free port of this machine until the ``with`` block ends.

    Settings are the flags of ``wf serve`` with underscores, for example ``max_running=8``. The program also reads its
    variables, such as ``WF_THREADS``.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        api_key: str | None = None,
        start_timeout: float = 600.0,
        **settings: Any,
    ) -> None:
        if "socket" in settings:
            raise TypeError("socket is not supported: clients are given the address of a port")
        self._model = model
        self._flags = [f"--port={port}", *_flags(settings)]
        self._api_key = api_key
        self._start_timeout = start_timeout
        self._stop_seconds = float(settings.get("drain", 30)) + _STOP_SECONDS
        self._address: str | None = None
        self._stop: weakref.finalize[..., Server] | None = None
        # Removed together with this object, so that the log of a server that failed can be read.
        self._folder = tempfile.TemporaryDirectory(prefix="wrinklefree-")
        self._log: Path | None = None

    @property
    def url(self) -> str:
        """Address of the server, such as ``http://127.0.0.1:43210``."""
        if self._address is None:
            raise ServerError("the server is not running: use it in a with block, or call start")
        return self._address

    @property
    def base_url(self) -> str:
        """Address of the OpenAI-compatible API."""
        return f"{self.url}/v1"

    @property
    def log(self) -> str:
        """Log of the server so far."""
        return "" if self._log is None else self._log.read_text(encoding="utf-8", errors="replace")

    def client(self, **options: Any) -> openai.OpenAI:
        """Returns a client of the package ``openai`` for this server."""
        client: openai.OpenAI = _openai().OpenAI(**self._client_options(options))
        return client

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        """Returns an asynchronous client of the package ``openai`` for this server."""
        client: openai.AsyncOpenAI = _openai().AsyncOpenAI(**self._client_options(options))
        return client

    def _client_options(self, options: dict[str, Any]) -> dict[str, Any]:
        # The client needs a key even where the server needs none.
        return {"base_url": self.base_url, "api_key": self._api_key or "none", **options}

    def start(self) -> None:
        """Starts the server and waits until it is healthy."""
        if self._address is not None:
            raise ServerError("the server is running already")
        deadline = time.monotonic() + self._start_timeout
        environment = dict(os.environ)
        if self._api_key is not None:
            # Other users of the machine can see flags, but not variables.
            environment["WF_API_KEY"] = self._api_key
        model = [] if self._model is None else [os.fspath(self._model)]
        self._log = Path(self._folder.name, "log")
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [str(program()), "serve", *self._flags, "--", *model],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        # Also stops the server if the interpreter ends without leaving the with block.
        self._stop = weakref.finalize(self, _stop, process, self._stop_seconds)
        try:
            self._address = self._wait(process, deadline)
        except BaseException:
            self.stop()
            raise

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        greeting = _Reader(process.stdout)
        while (address := greeting.address) is None or not _is_healthy(address):
            if process.poll() is not None:
                raise ServerError(_error_of(self.log) or f"the server ended with status {process.returncode}")
            if time.monotonic() > deadline:
                raise ServerError(f"the server did not start within {self._start_timeout:g} s")
            greeting.found.wait(0.02)
        return address

    def stop(self) -> None:
        """Stops the server. Requests in flight may finish within its setting ``drain``."""
        self._address = None
        if self._stop is not None:
            self._stop()
            self._stop = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class _Reader:
    """Reads all output, so that the server never waits for a reader, and looks for the address in it."""

    def __init__(self, output: IO[bytes] | None) -> None:
        self.address: str | None = None
        self.found = threading.Event()
        threading.Thread(target=self._read, args=(output,), daemon=True).start()

    def _read(self, output: IO[bytes] | None) -> None:
        for line in output or ():
            match = _ADDRESS.search(line)
            if match and self.address is None:
                self.address = match.group().decode()
                self.found.set()


def _flags(settings: dict[str, Any]) -> list[str]:
    flags = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            values = value if isinstance(value, (list, tuple)) else [value]
            flags += [f"{flag}={os.fspath(one) if isinstance(one, Path) else one}" for one in values]
    return flags


def _is_healthy(address: str) -> bool:
    # A certificate for this address is not needed: the server is a child of this process.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with direct.open(f"{address}/health", timeout=5.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _error_of(log: str) -> str:
    """Returns the message with which the program ended."""
    _, _, message = log.rpartition("error: ")
    return message.partition("\n")[0].strip()


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ImportError("Server.client needs the package openai: pip install openai") from error
    return openai
