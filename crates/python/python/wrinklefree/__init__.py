"""Runs 1.58-bit (ternary) language models on CPUs.

``LLM`` runs a model in this process; ``Server`` starts the program ``wf`` with an OpenAI-compatible API.
"""

from __future__ import annotations

from ._errors import Cancelled, EngineError, Error, ModelError, RequestError, ServerError
from ._options import EmbeddingOptions, Sampling, Settings
from ._server import Server
from ._wrinklefree import LLM, Cancel, Completion, Stream, TokenLogprob

__all__ = [
    "LLM",
    "Cancel",
    "Cancelled",
    "Completion",
    "EmbeddingOptions",
    "EngineError",
    "Error",
    "ModelError",
    "RequestError",
    "Sampling",
    "Server",
    "ServerError",
    "Settings",
    "Stream",
    "TokenLogprob",
]
