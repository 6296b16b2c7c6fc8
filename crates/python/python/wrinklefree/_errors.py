"""Exceptions. Their messages are those of the program ``wf``."""

from __future__ import annotations


class Error(Exception):
    """Base class of all exceptions of this package."""


class RequestError(Error, ValueError):
    """A setting, an option, a prompt or a text is invalid."""


class ModelError(Error, OSError):
    """The model cannot be found, downloaded or loaded."""


class EngineError(Error, RuntimeError):
    """The engine failed, or the model is closed."""


class Cancelled(Error, RuntimeError):
    """The request was cancelled by another thread."""


class ServerError(Error, RuntimeError):
    """The server did not start."""
