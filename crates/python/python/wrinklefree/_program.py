"""The program ``wf`` of this installation."""

from __future__ import annotations

import os
import sysconfig
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from ._errors import ServerError


def program() -> Path:
    """Returns the path of the program that was installed with this package."""
    name = "wf.exe" if os.name == "nt" else "wf"
    for path in (*_recorded(name), Path(sysconfig.get_path("scripts"), name)):
        if path.is_file():
            return path.resolve()
    raise ServerError(f"the program {name} is missing: install the wheel of wrinklefree again")


def _recorded(name: str) -> list[Path]:
    """Returns the files of that name that pip has recorded, wherever scripts were installed."""
    try:
        recorded = files("wrinklefree") or []
    except PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in recorded if file.name == name]
