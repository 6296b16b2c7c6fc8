"""litellm's two Ollama providers, which send JSON without a content type."""

import json

from bench import STORY, Bench, ok
import litellm

# It appends the path of one request to that of another, with Ollama too, and goes on without an answer.
WRONG_PATHS = ("/api/chat/api/show", "/api/generate/api/show", "/api/embed/api/show")
UNIT = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"],
        "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": UNIT}}


def settings(bench, provider, text=STORY, **more):
    messages = [{"role": "user", "content": text}]
    return dict(model=f"{provider}/wf-demo", api_base=bench.url, temperature=0, messages=messages, **more)


def text(bench, provider):
    asked = settings(bench, provider, max_tokens=24)
    whole = litellm.completion(**asked)
    assert whole.usage.completion_tokens == 24, whole
    parts = [part.choices[0].delta.content or "" for part in litellm.completion(**asked, stream=True)]
    assert "".join(parts) == whole.choices[0].message.content and len(parts) > 10
    return "".join(parts)


with Bench() as bench:
    assert text(bench, "ollama_chat") == bench.chat()
    # The other provider writes the roles into a prompt of its own, which the template gets as one message.
    own = text(bench, "ollama")
    assert own == bench.chat(bench.last("/api/generate").json["prompt"])
    called = litellm.completion(**settings(bench, "ollama_chat", max_tokens=24), tools=[TOOL])
    assert called.choices[0].message.content or called.choices[0].message.tool_calls, called
    schema = {"type": "json_schema", "json_schema": {"name": "unit", "schema": UNIT}}
    typed = litellm.completion(**settings(bench, "ollama_chat", max_tokens=60), response_format=schema)
    assert json.loads(typed.choices[0].message.content)["unit"] in ("C", "F"), typed
    texts = ["a cat", "a dog"]
    vectors = litellm.embedding(model="ollama/wf-demo", api_base=bench.url, input=texts)
    assert [one["embedding"] for one in vectors.data] == bench.embeddings(texts)
    bench.none_refused("/api/chat", "/api/generate", "/api/embed", but=WRONG_PATHS)
ok("litellm")
