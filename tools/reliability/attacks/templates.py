"""Chat templates that compute forever or take all memory, in files that `wf inspect` and `wf serve` read."""

import contextlib
import pathlib
import resource
import subprocess
import tempfile
import time

from gguf import with_string
from process import Server, check
from wire import ask

DEMO = pathlib.Path(__file__).parents[3] / "crates/wf/assets/demo.gguf"
TEMPLATES = {
    "long products": "{{ ([0]*1000000000) == ([0]*1000000000) }}",
    "a product of nothing": "{{ [] * 9223372036854775807 }}",
    "a huge text": "{{ 'a' * 9999999999 }}",
    "texts that double": "{% set t = namespace(x='aaaa') %}{% for i in range(99) %}{% set t.x = t.x ~ t.x %}{% endfor %}{{ t.x }}",
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "a long range": "{{ range(0, 9223372036854775807) | list }}",
    "recursion": "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "nesting": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "a list of itself": "{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
    "JSON of a list of itself": "{% set n = namespace(x=[]) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
    "replacements": "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(12) %}{% set n.x = n.x | replace('a', 'aaaaaaaa') %}{% endfor %}{{ n.x }}",
    "a division": "{{ 1 // 0 }}",
    "a syntax error": "{% for %}",
    "an attribute": "{{ messages.__class__.__mro__ }}",
    "a file": "{% include '/etc/passwd' %}",
    "a power": "{{ 9999999 ** 9999999 }}",
    "a sort": "{{ range(90000) | sort | unique | list | length }}",
    "an indent": "{{ 'a\n' * 5000 | indent(100000) }}",
}
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
INSPECT_SECONDS, CHAT_SECONDS, STOP_SECONDS = 30, 30, 15
MEMORY = 4 << 30


def inspect(binary, path):
    """Describes the file. Returns the seconds."""
    started = time.monotonic()
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    command = [binary, "inspect", "--quick", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=INSPECT_SECONDS, preexec_fn=limit)
    text = done.stderr.decode(errors="replace")
    check(done.returncode in (0, 1) and "panicked" not in text, f"inspect: {done.returncode}: {text[-500:]}")
    return time.monotonic() - started


async def serve(binary, path, expected):
    """Chats with the template, twice; other requests and the shutdown are not affected."""
    limits = {resource.RLIMIT_AS: MEMORY}
    with contextlib.closing(Server(binary, model=[str(path)], limits=limits).spawn()) as server:
        if not server.wait_for_address():
            check(server.process.returncode == 1, f"exit code {server.process.returncode}: {server.error_text()}")
            return
        for _ in range(2):
            response = await ask(server, "POST", "/v1/chat/completions", CHAT, seconds=CHAT_SECONDS)
            check("x-request-id" in response.headers and response.json(), response)
        response = await ask(server, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 4, "seed": 1})
        text = response.json()["choices"][0]["text"]
        check(expected in (None, text), f"a completion is {text!r} instead of {expected!r}")
        check(server.stop(STOP_SECONDS) == 0, "the server did not end with 0")
        return text


async def run(arena):
    demo, slowest, expected = DEMO.read_bytes(), 0, None
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        templates = arena.sample(TEMPLATES.items())
        for name, template in templates:
            file.seek(0)
            file.truncate()
            file.write(with_string(demo, "tokenizer.chat_template", template))
            file.flush()
            try:
                slowest = max(slowest, inspect(arena.binary, file.name))
                expected = await serve(arena.binary, file.name, expected) or expected
            except (subprocess.TimeoutExpired, TimeoutError) as error:
                check(False, f"template with {name}: {error!r}")
    return f"{len(templates)} templates; inspect within {slowest:.1f} s"
