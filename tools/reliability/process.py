"""The real binary as a process: start, stop, kill, memory, descriptors, threads."""

import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

START_SECONDS = 60


class Failure(Exception):
    """Something that must never happen."""


def check(holds, message):
    if not holds:
        raise Failure(message)


class Server:
    """A `wf serve` that ends with its `with` block. `wrap` is a command that runs it under limits."""

    def __init__(self, binary, *flags, wrap=(), model=(), limits=None, log="warn", stderr=None):
        self.command = [*wrap, binary, "serve", *model, "--port", "0", "--log", log, *flags]
        self.limits = limits or {}
        self.stderr = stderr

    def _apply_limits(self):
        for kind, limit in self.limits.items():
            resource.setrlimit(kind, (limit, limit))

    def spawn(self):
        """Starts the process without waiting for its address."""
        self.errors = self.stderr or tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            preexec_fn=self._apply_limits,
        )
        return self

    def wait_for_address(self):
        """Returns `False` if the process ended instead."""
        for line in self.process.stdout:
            if found := re.search(rb"http://([^\s:]+):(\d+)", line):
                self.host, self.port = found.group(1).decode(), int(found.group(2))
                return True
        self.process.wait(START_SECONDS)
        return False

    def __enter__(self):
        self.spawn()
        check(self.wait_for_address(), f"the server did not start: {self.error_text()}")
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def error_text(self):
        if self.stderr is not None:
            return ""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds=60):
        """Ends it as an operator would. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def is_alive(self):
        return self.process.poll() is None

    def usage(self):
        """Returns resident kilobytes, descriptors and threads."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        status = (folder / "status").read_text()
        number = lambda name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M).group(1))
        return number("VmRSS"), len(list((folder / "fd").iterdir())), number("Threads")


def until(holds, seconds, what):
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not holds():
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.05)
