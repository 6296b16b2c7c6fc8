"""Embeddings are those of ``wf embed``, bit for bit."""

from __future__ import annotations

import struct

import pytest
from conftest import Program

from wrinklefree import LLM, RequestError

TEXT = "The cat sat on the mat"


def bits(vector: list[float]) -> bytes:
    return struct.pack(f"{len(vector)}f", *vector)


def test_an_embedding_is_that_of_the_program(llm: LLM, wf: Program) -> None:
    vector = llm.embed(TEXT)
    assert bits(vector) == bits(wf.json("embed", "--json", TEXT)["embedding"])
    assert abs(sum(value * value for value in vector) - 1) < 1e-5
    mean = wf.json("embed", "--json", TEXT, "--pooling", "mean", "--dimensions", "8")["embedding"]
    assert bits(llm.embed(TEXT, pooling="mean", dimensions=8)) == bits(mean)


def test_a_batch_has_the_vectors_of_its_texts(llm: LLM) -> None:
    texts = [f"text {number}" for number in range(40)]
    assert llm.embed(texts) == [llm.embed(text) for text in texts]
    assert llm.embed([]) == []


def test_errors_are_those_of_the_program(llm: LLM, wf: Program) -> None:
    with pytest.raises(RequestError) as error:
        llm.embed(TEXT, dimensions=100_000)
    assert str(error.value) == wf.error("embed", TEXT, "--dimensions", "100000")
    with pytest.raises(RequestError) as error:
        llm.embed(TEXT, pooling="max")
    assert str(error.value) == wf.error("embed", TEXT, "--pooling", "max")
    with pytest.raises(RequestError, match="^text 2: "):
        llm.embed(["fine", "long " * 5000])
