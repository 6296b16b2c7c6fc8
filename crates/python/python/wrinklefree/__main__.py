"""``python -m wrinklefree`` is the program ``wf``."""

from __future__ import annotations

import subprocess
import sys

from ._program import program

if __name__ == "__main__":
    try:
        sys.exit(subprocess.call([str(program()), *sys.argv[1:]]))
    except KeyboardInterrupt:
        # The program has got the same signal.
        sys.exit(130)
