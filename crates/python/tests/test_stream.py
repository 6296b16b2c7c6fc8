"""Streams: pieces of text, closing, and other threads."""

from __future__ import annotations

import threading

import pytest

from wrinklefree import LLM, Cancel, Cancelled, Stream


def endless(llm: LLM, cancel: Cancel | None = None) -> Stream:
    return llm.stream("Once upon a time", max_tokens=2000, ignore_eos=True, cancel=cancel)


def test_the_pieces_are_the_completion(llm: LLM) -> None:
    whole = llm.generate("Once upon a time", max_tokens=30)
    stream = llm.stream("Once upon a time", max_tokens=30)
    pieces = list(stream)
    assert len(pieces) > 5
    assert "".join(pieces) == stream.text == whole.text
    assert (stream.ids, stream.prompt_ids) == (whole.ids, whole.prompt_ids)
    assert stream.finish_reason == whole.finish_reason == "length"
    assert list(stream) == []
    messages = [{"role": "user", "content": "Hi"}]
    assert "".join(llm.stream(messages, max_tokens=9)) == llm.chat(messages, max_tokens=9).text


def test_closing_cancels_the_rest(llm: LLM) -> None:
    with endless(llm) as stream:
        first = next(stream)
    assert list(stream) == []
    assert stream.text == first
    assert stream.finish_reason is None


def test_another_thread_closes_a_stream_that_is_being_read(llm: LLM) -> None:
    stream = endless(llm)
    next(stream)
    pieces: list[str] = []
    reader = threading.Thread(target=lambda: pieces.extend(stream))
    reader.start()
    while not pieces:
        pass
    stream.close()
    reader.join(10)
    assert not reader.is_alive()
    assert stream.finish_reason is None


def test_a_cancelled_stream_raises(llm: LLM) -> None:
    cancel = Cancel()
    stream = endless(llm, cancel)
    next(stream)
    assert not cancel.cancelled
    cancel.cancel()
    assert cancel.cancelled
    with pytest.raises(Cancelled):
        next(stream)
    assert list(stream) == []


def test_streams_run_at_the_same_time(llm: LLM) -> None:
    streams = [llm.stream(f"Story {number}", max_tokens=10) for number in range(4)]
    for _ in range(3):
        for stream in streams:
            next(stream)
    for number, stream in enumerate(streams):
        list(stream)
        assert stream.ids == llm.generate(f"Story {number}", max_tokens=10).ids
