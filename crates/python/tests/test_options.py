"""The types of keyword arguments name the options that exist."""

from __future__ import annotations

from wrinklefree import EmbeddingOptions, Sampling, Settings
from wrinklefree._wrinklefree import option_names


def test_types_have_all_options_and_no_others() -> None:
    settings, sampling, embedding = option_names()
    assert set(settings) == set(Settings.__annotations__)
    assert set(sampling) == set(Sampling.__annotations__)
    assert set(embedding) == set(EmbeddingOptions.__annotations__)
