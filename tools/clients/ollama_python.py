"""The `ollama` package: chat, generate, streams, embeddings, models, errors."""

import sys
from importlib.metadata import version

import ollama
import openai
from server import Server

STORY = {
    "model": "wf-demo",
    "messages": [{"role": "user", "content": "Tell me a story about a cat"}],
    "options": {"temperature": 0, "num_predict": 24, "num_ctx": 4096},
}


def chat(client, server):
    reply = client.chat(**STORY)
    assert reply.done and reply.done_reason == "length" and reply.eval_count == 24
    assert reply.total_duration >= reply.prompt_eval_duration + reply.eval_duration > 0
    other = openai.OpenAI(base_url=server.base_url, api_key="none").chat.completions.create(
        model="wf-demo", messages=STORY["messages"], max_tokens=24, temperature=0
    )
    assert reply.message.content == other.choices[0].message.content
    parts = list(client.chat(**STORY, stream=True))
    assert "".join(part.message.content for part in parts) == reply.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    return reply.message.content


def generate(client, expected):
    settings = {"model": "wf-demo", "prompt": STORY["messages"][0]["content"], "options": STORY["options"]}
    assert client.generate(**settings).response == expected
    parts = [part.response for part in client.generate(**settings, stream=True)]
    assert "".join(parts) == expected and len(parts) > 10
    assert client.generate(model="wf-demo").done_reason == "load"


def embed(client, server):
    texts = ["A cat sat on the mat.", "A dog ran in the park."]
    answer = client.embed(model="wf-demo", input=texts)
    other = openai.OpenAI(base_url=server.base_url, api_key="none")
    other = other.embeddings.create(model="wf-demo", input=texts, encoding_format="float")
    assert [list(vector) for vector in answer.embeddings] == [one.embedding for one in other.data]
    assert answer.prompt_eval_count == other.usage.prompt_tokens and answer.total_duration > 0
    [short] = client.embed(model="wf-demo", input=texts[0], dimensions=16).embeddings
    assert len(short) == 16
    before = client.embeddings(model="wf-demo", prompt=texts[0])
    assert list(before.embedding) == other.data[0].embedding


def models(client):
    assert [model.model for model in client.list().models] == ["wf-demo"]
    assert [model.name for model in client.ps().models] == ["wf-demo"]
    shown = client.show("wf-demo")
    assert shown.template and shown.modelinfo and shown.capabilities == ["completion", "tools", "embedding"]


def errors(client):
    def refused(status, **settings):
        said = []
        for stream in (False, True):
            try:
                list(client.chat(**{**STORY, **settings}, stream=stream))
            except ollama.ResponseError as error:
                assert error.status_code == status, error
                said.append(error.error)
        assert len(said) == 2, f"{settings} was accepted"
        return said[0]

    assert 'model "llama3" not found' in refused(404, model="llama3")
    assert "format" in refused(400, format={"type": "nonsense"})
    assert "temperature" in refused(400, options={"temperature": -1})


def main(binary):
    with Server(binary) as server:
        client = ollama.Client(host=server.url)
        text = chat(client, server)
        generate(client, text)
        embed(client, server)
        models(client)
        errors(client)
        assert server.stop() == 0


main(sys.argv[1])
print("ollama (Python):", version("ollama"), "ok")
