"""Starts the real binary on a free port for the duration of a `with` block."""

import os
import re
import signal
import subprocess
import time


class Server:
    def __init__(self, binary, *flags, port=0, env=None):
        self.command = [binary, "serve", "--port", str(port), "--log", "warn", *flags]
        self.env = {**os.environ, **(env or {})}

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True, env=self.env
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)", line)
        assert found, f"the server did not print its address: {line!r}"
        self.url = found.group(0)
        self.port = int(found.group(1))
        self.base_url = self.url + "/v1"
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def until(what, seconds=30):
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
