"""The server of the wheel, with a client of the package openai."""

from __future__ import annotations

import builtins
import subprocess
import sys
import urllib.request
from typing import Any

import openai
import pytest
from conftest import Program

from wrinklefree import LLM, Server, ServerError

QUESTION = "Tell me a story about a dragon."


def test_a_client_gets_the_completion_of_the_module(llm: LLM) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    with Server(threads=1, max_running=4) as server:
        response = server.client().chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=20,
        )
        assert response.choices[0].message.content == llm.chat(messages, max_tokens=20).text
        url = server.url
        assert server.base_url == f"{url}/v1"
        assert urllib.request.urlopen(f"{url}/health").status == 200
        assert "error" not in server.log
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/health")
    with pytest.raises(ServerError, match="the server is not running"):
        server.client()


def test_keys_are_passed_to_server_and_client() -> None:
    with Server(api_key="secret", threads=1) as server:
        assert server.client().models.list().data
        with pytest.raises(openai.AuthenticationError):
            server.client(api_key="wrong").models.list()
        arguments = subprocess.run(["ps", "ax"], capture_output=True, text=True).stdout
        assert "secret" not in arguments
        server.stop()
        server.start()
        assert server.client().models.list().data


def test_a_server_that_fails_raises_with_its_message(wf: Program) -> None:
    for arguments, settings in (
        (["no-such.gguf"], {"model": "no-such.gguf"}),
        (["--threads=0"], {"threads": 0}),
        (["--no-such-flag"], {"no_such_flag": True}),
    ):
        values: dict[str, Any] = settings
        with pytest.raises(ServerError) as error, Server(**values):
            pass
        assert str(error.value) == wf.error("serve", "--port=0", *arguments)
    with pytest.raises(ServerError, match="did not start within 0 s"), Server(start_timeout=0):
        pass
    with pytest.raises(TypeError, match="socket"):
        Server(socket="/tmp/socket")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def without_openai(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "openai":
            raise ImportError(name)
        return import_module(name, *arguments, **options)

    with Server(threads=1) as server:
        monkeypatch.setattr(builtins, "__import__", without_openai)
        with pytest.raises(ImportError, match="pip install openai"):
            server.client()
        monkeypatch.undo()


def test_no_server_is_left_when_the_interpreter_ends() -> None:
    code = "from wrinklefree import Server; s = Server(threads=1); s.start(); print(s.url)"
    url = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url.strip()}/health")


def test_the_module_is_also_the_program(wf: Program) -> None:
    command = [sys.executable, "-m", "wrinklefree", "run", "Hi", "-n", "3", "--json"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert str(wf.json("run", "Hi", "-n", "3", "--json")["ids"]).replace(" ", "") in text
    failed = subprocess.run([*command[:3], "nonsense"], capture_output=True)
    assert failed.returncode == 2
