"""Types of the keyword arguments. Names, defaults, checks and meaning are those of the flags of ``wf``.

Written by ``WF_WRITE=1 cargo test -p wf --lib python_types``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Union


class Settings(TypedDict, total=False):
    """Settings of a model: ``wf run --help`` describes each as a flag."""

    max_running: int
    kv_memory: Union[int, str]
    # Decoding
    decode: str
    draft: Union[str, os.PathLike[str]]
    block_size: int
    sub_block_size: int
    rule: str
    threshold: float
    steps: int
    draft_tokens: int
    # Compute
    threads: int
    cpus: str
    isa: str
    layout: str
    kv: str
    attention: str
    activations: str
    activation_sparsity: str
    context: int
    chunk: int
    # Output head
    head: str
    # Compute
    sparse: str
    # Model file
    i2s_order: str
    activation: str
    mask_token: int
    rows_score: str
    block_context: str


class Sampling(TypedDict, total=False):
    """Options of a completion. It is greedy unless a temperature is set."""

    max_tokens: int
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    repeat_last_n: int
    logit_bias: Mapping[int, float]
    seed: int
    stop: Union[str, Sequence[str]]
    thinking: Union[int, str]
    ignore_eos: bool
    # Structured output
    json_schema: Union[str, Mapping[str, Any]]
    regex: str
    grammar: str


class EmbeddingOptions(TypedDict, total=False):
    """Options of an embedding."""

    pooling: str
    dimensions: int
