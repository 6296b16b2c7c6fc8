#!/usr/bin/env python3
"""Drives `wf chat` through a pseudo-terminal and records it as an animated SVG.

    tools/terminal/record.py target/release/wf docs/images/terminal.svg

Needs only Python's standard library. Responses and their speed are those of this machine; only the
typing is slowed down.
"""

import os
import pty
import select
import struct
import sys
import tempfile
import time
from fcntl import ioctl
from html import escape
from termios import TIOCSWINSZ

from screen import Screen

COLUMNS, ROWS = 104, 26
# Lines to type, and the output that must appear before the next one.
READY = "\x1b[?2004h"
LINES = ["Hello! Who are you?", "Tell me a story about a dragon.", "/stats", "/quit"]
KEY_SECONDS = 0.05
LOOK_SECONDS = 1.2
STYLES = {"1;36": 'fill="#56b6c2" font-weight="bold"', "2": 'fill="#8b949e"', "31": 'fill="#f47067"'}
CHAR, LINE, EDGE = 8.4, 19, 16


class Recording:
    """A program on a terminal; `frames` has the contents of its screen with timestamps."""

    def __init__(self, command, environment):
        child, self.terminal = pty.fork()
        if child == 0:
            os.execvpe(command[0], command, environment)
        ioctl(self.terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.child, self.screen, self.shown = child, Screen(COLUMNS, ROWS), ""
        self.start, self.frames = time.monotonic(), []

    def look(self, seconds, until=None):
        """Reads output for a number of seconds, or until a text appears."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not (until and until in self.shown):
            if not select.select([self.terminal], [], [], left)[0]:
                continue
            try:
                text = os.read(self.terminal, 65536).decode("utf-8", "replace")
            except OSError:
                return
            self.shown += text
            self.screen.feed(text)
            rows = tuple(self.screen.runs(row) for row in range(ROWS))
            self.frames.append((time.monotonic() - self.start, rows))
        if until and until not in self.shown:
            sys.exit(f"record.py: {until!r} did not appear within {seconds} s")

    def type(self, line):
        self.shown = ""
        for key in line:
            os.write(self.terminal, key.encode())
            self.look(KEY_SECONDS)
        self.look(0.4)
        self.shown = ""
        os.write(self.terminal, b"\r")


def record(wf):
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "HOME": home, "XDG_STATE_HOME": home, "PATH": os.environ["PATH"],
            "TERM": "xterm-256color", "LANG": "C.UTF-8",
        }
        command = [wf, "chat", "--temperature", "0.7", "--seed", "14", "-n", "200"]
        recording = Recording(command, environment)
        recording.look(30, READY)
        for line in LINES:
            recording.look(LOOK_SECONDS)
            recording.type(line)
            recording.look(60 if line != "/quit" else 2, READY if line != "/quit" else None)
        os.waitpid(recording.child, 0)
        return recording.frames


def spans(frames, end):
    """Returns the contents of each row over time, as [(row, runs, from, to)]."""
    found, open_rows = [], {}
    for at, rows in frames + [(end, None)]:
        for row in range(ROWS):
            runs = rows[row] if rows else None
            since, before = open_rows.get(row, (at, ()))
            if runs != before:
                if before and at > since:
                    found.append((row, before, since, at))
                open_rows[row] = (at, runs)
    return found


def thinned(frames, gap=0.08):
    """Merges frames that are too close to tell apart; keeps the last of each group."""
    kept = []
    for at, rows in frames:
        if kept and at - kept[-1][0] < gap:
            kept[-1] = (kept[-1][0], rows)
        else:
            kept.append((at, rows))
    return kept


def draw(frames):
    end = frames[-1][0] + 4
    width, height = COLUMNS * CHAR + 2 * EDGE, ROWS * LINE + 2 * EDGE
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">',
        "<title>wf chat in a terminal</title>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
    ]
    for row, runs, since, to in spans(thinned(frames), end):
        y = EDGE + (row + 0.75) * LINE
        column, parts = 0, []
        for text, style in runs:
            if text.strip():
                look = STYLES.get(style, 'fill="#e6edf3"')
                x = EDGE + column * CHAR
                length = len(text) * CHAR
                parts.append(
                    f'<tspan x="{x:.1f}" textLength="{length:.1f}" {look}>{escape(text)}</tspan>'
                )
            column += len(text)
        # Without animation, the last frame is shown.
        stays = "visible" if to >= end else "hidden"
        times = f"0;{since / end:.4f};{min(to / end, 0.9999):.4f}"
        out.append(
            f'<text xml:space="preserve" y="{y:.1f}" visibility="{stays}">{"".join(parts)}'
            f'<animate attributeName="visibility" calcMode="discrete" dur="{end:.1f}s" '
            f'values="hidden;visible;hidden" keyTimes="{times}" repeatCount="indefinite"/></text>'
        )
    return "\n".join([*out, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: record.py WF OUT.svg")
    frames = record(os.path.abspath(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(draw(frames))
    print(f"{sys.argv[2]}: {len(frames)} frames, {frames[-1][0]:.1f} s")


if __name__ == "__main__":
    main()
