"""Errors are exceptions with the text of the program."""

from __future__ import annotations

import pathlib

import pytest
from conftest import Program

import wrinklefree
from wrinklefree import LLM, ModelError, RequestError

DATA = pathlib.Path(__file__).parents[3] / "tests" / "data"


def test_classes_are_also_those_of_python() -> None:
    assert issubclass(RequestError, ValueError)
    assert issubclass(ModelError, OSError)
    for other in (wrinklefree.EngineError, wrinklefree.Cancelled, wrinklefree.ServerError):
        assert issubclass(other, RuntimeError)
        assert issubclass(other, wrinklefree.Error)


@pytest.mark.parametrize(
    ("option", "value"),
    [("temperature", 200), ("top_p", 0), ("max_tokens", 0), ("seed", -1), ("top_k", 1.5), ("min_p", float("nan"))],
)
def test_an_invalid_option_has_the_message_of_the_program(llm: LLM, wf: Program, option: str, value: float) -> None:
    with pytest.raises(RequestError) as error:
        llm.generate("Once", **{option: value})  # type: ignore[call-overload]
    assert str(error.value) == wf.error("run", "Once", f"--{option.replace('_', '-')}={value}")


def test_options_that_contradict_each_other(llm: LLM, wf: Program) -> None:
    with pytest.raises(RequestError) as error:
        llm.generate("Once", regex="a", grammar='start: "a"')
    assert str(error.value) == wf.error("run", "Once", "--regex", "a", "--grammar", 'start: "a"')
    with pytest.raises(RequestError) as error:
        llm.generate("Once", regex="(")
    assert str(error.value).splitlines()[0] == wf.error("run", "Once", "--regex", "(")


def test_an_invalid_setting_has_the_message_of_the_program(wf: Program) -> None:
    for setting, value in (("threads", 0), ("kv", "int3"), ("isa", "mmx"), ("decode", "psychic")):
        with pytest.raises(RequestError) as error:
            LLM(**{setting: value})  # type: ignore[arg-type]
        assert str(error.value) == wf.error("run", "Once", f"--{setting}={value}")


def test_a_missing_model_has_the_message_of_the_program(wf: Program, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    for model in ("no/such-model", "no-such.gguf", str(broken), "hf:"):
        with pytest.raises(ModelError) as error:
            LLM(model)
        assert str(error.value) == wf.error("run", model, "Once")
    with pytest.raises(ModelError):
        LLM(broken)


def test_unknown_names_are_type_errors(llm: LLM) -> None:
    with pytest.raises(TypeError, match="no option is called temprature; did you mean temperature?"):
        llm.generate("Once", temprature=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no option is called thread; did you mean threads?"):
        LLM(thread=1)  # type: ignore[call-arg]


def test_invalid_inputs(llm: LLM) -> None:
    long = "long " * 5000
    with pytest.raises(RequestError, match="^prompt has .* tokens: prompt and completion must fit"):
        llm.generate(long)
    with pytest.raises(RequestError, match="^prompt 2: prompt has"):
        llm.generate(["fine", long])
    with pytest.raises(RequestError, match="token id 4000000 is not in the vocabulary"):
        llm.generate([4000000])
    with pytest.raises(TypeError, match="a prompt must be a string or a list of token ids, not dict"):
        llm.generate({})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a conversation must be a list of messages"):
        llm.chat("Hi")  # type: ignore[call-overload]
    with pytest.raises(RequestError, match=r"messages\[0\].role"):
        llm.chat([{"role": "wizard", "content": "Hi"}])
    with pytest.raises(ValueError, match="2 prompts and 1 completions"):
        llm.logprobs(["a", "b"], ["c"])
    with pytest.raises(TypeError, match="stop is a object"):
        llm.generate("Once", stop=[object()])  # type: ignore[list-item]


def test_other_models_run_too(wf: Program) -> None:
    path = DATA / "gemma3" / "windows.gguf"
    with LLM(path, threads=1) as model:
        run = wf.json("run", "--json", "--raw", str(path), "ab", "-n", "8")
        assert model.generate("ab", max_tokens=8).ids == run["ids"]
        with pytest.raises(RequestError) as error:
            model.chat([{"role": "user", "content": "Hi"}])
        assert str(error.value) == wf.error("run", str(path), "Hi", "--system", "Be brief.")
