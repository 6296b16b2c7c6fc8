"""Cancelling, signals, and what other threads and processes see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from wrinklefree import LLM, Cancel, Cancelled, EngineError


def test_another_thread_cancels_a_batch(llm: LLM) -> None:
    cancel = Cancel()
    threading.Timer(0.2, cancel.cancel).start()
    with pytest.raises(Cancelled, match="the request was cancelled"):
        llm.generate(["Once"] * 200, max_tokens=1900, ignore_eos=True, cancel=cancel)
    # The engine is free again.
    assert len(llm.generate("Once", max_tokens=3).ids) == 3
    with pytest.raises(Cancelled):
        llm.embed("Once", cancel=cancel)


def test_other_threads_run_meanwhile(llm: LLM) -> None:
    done = threading.Event()
    counts: list[int] = []

    def count() -> None:
        number = 0
        while not done.is_set():
            number += 1
        counts.append(number)

    counter = threading.Thread(target=count)
    counter.start()
    llm.generate("Once", max_tokens=200, ignore_eos=True)
    done.set()
    counter.join()
    # A call that kept the interpreter would leave at most a few milliseconds before and after it.
    assert counts[0] > 100_000


INTERRUPTED = """
import sys
from wrinklefree import LLM
llm = LLM()
try:
    print("ready", flush=True)
    {call}
except KeyboardInterrupt:
    print(len(llm.generate("Once", max_tokens=3).ids), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="a console is needed")
@pytest.mark.parametrize(
    "call",
    [
        'llm.generate(["Once"] * 500, max_tokens=1900, ignore_eos=True)',
        'list(llm.stream("Once", max_tokens=1900, ignore_eos=True))',
    ],
)
def test_a_signal_interrupts(call: str) -> None:
    code = INTERRUPTED.format(call=call)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "3\n"
        assert process.returncode == 0


def test_a_closed_model_says_so() -> None:
    with LLM(threads=1) as model:
        stream = model.stream("Once", max_tokens=5)
    with pytest.raises(EngineError, match="the model is closed"):
        model.generate("Once")
    list(stream)
    assert len(stream.ids) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_to_open_its_own(llm: LLM) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            llm.generate("Once")
        except EngineError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).startswith(b"the model was opened in another process")
