"""The model and the program that the tests compare."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from wrinklefree import LLM
from wrinklefree._program import program


class Program:
    """The program ``wf`` of the wheel."""

    def json(self, *arguments: str) -> dict[str, Any]:
        """Returns the JSON object that a command prints."""
        done = subprocess.run([str(program()), *arguments], check=True, capture_output=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def error(self, *arguments: str) -> str:
        """Returns the first line of the error of a command."""
        done = subprocess.run([str(program()), *arguments], capture_output=True, text=True)
        assert done.returncode != 0, done.stdout
        return done.stderr.removeprefix("error: ").splitlines()[0]


@pytest.fixture(scope="session")
def wf() -> Program:
    return Program()


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    with LLM() as model:
        yield model
