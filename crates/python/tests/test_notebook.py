"""The outputs in docs/python.ipynb are those of its cells."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pathlib
from typing import Any

import pytest

from wrinklefree._program import program

NOTEBOOK = pathlib.Path(__file__).parents[3] / "docs" / "python.ipynb"


def run(source: str, names: dict[str, Any]) -> tuple[str, str]:
    """Runs a cell. Returns what it prints, and the value of its last line if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), "" if value is None else repr(value)


def recorded(cell: dict[str, Any]) -> tuple[str, str]:
    printed = [text for output in cell["outputs"] for text in output.get("text", [])]
    value = [text for output in cell["outputs"] for text in output.get("data", {}).get("text/plain", [])]
    return "".join(printed), "".join(value)


def test_every_cell_has_its_output(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PATH", str(program().parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 10
    names: dict[str, Any] = {}
    for cell in cells:
        source = "".join(cell["source"])
        assert run(source, names) == recorded(cell), source
