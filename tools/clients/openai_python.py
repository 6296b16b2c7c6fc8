"""The `openai` package: chat, streams, log probabilities, choices, errors, retries, aborts."""

import array
import sys
import urllib.request

import openai
from server import Server, until

STORY = [{"role": "user", "content": "Tell me a story about a cat"}]


def chat(client):
    reply = client.chat.completions.create(
        model="wf-demo", messages=STORY, max_tokens=24, seed=3, logprobs=True, top_logprobs=3
    )
    choice = reply.choices[0]
    assert choice.message.role == "assistant" and len(choice.message.content) > 40
    assert choice.finish_reason == "length" and reply.usage.completion_tokens == 24
    assert len(choice.logprobs.content) == 24
    assert all(len(token.top_logprobs) == 3 for token in choice.logprobs.content)
    text = b"".join(bytes(token.bytes) for token in choice.logprobs.content).decode()
    assert text == choice.message.content, (text, choice.message.content)
    return choice.message.content


def stream(client, expected):
    parts, usage = [], None
    for chunk in client.chat.completions.create(
        model="wf-demo", messages=STORY, max_tokens=24, seed=3, stream=True,
        stream_options={"include_usage": True},
    ):
        usage = chunk.usage or usage
        parts += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(parts) == expected
    assert usage.completion_tokens == 24 and usage.prompt_tokens > 5


def choices(client):
    ask = {"model": "wf-demo", "messages": STORY, "max_tokens": 24, "seed": 3, "temperature": 1, "top_p": 1}
    alone = client.chat.completions.create(**ask).choices[0].message.content
    texts = [choice.message.content for choice in client.chat.completions.create(**ask, n=3).choices]
    assert texts[0] == alone and len(set(texts)) == 3


def completions(client):
    reply = client.completions.create(
        model="wf-demo", prompt="Once upon a time", max_tokens=8, temperature=0, echo=True, logprobs=2
    )
    choice = reply.choices[0]
    assert choice.text.startswith("Once upon a time")
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == 13
    assert choice.logprobs.token_logprobs[0] is None
    many = client.completions.create(model="wf-demo", prompt=["One", "Two"], max_tokens=3)
    assert [choice.index for choice in many.choices] == [0, 1]


def models(client):
    assert [model.id for model in client.models.list()] == ["wf-demo"]
    assert client.models.retrieve("wf-demo").id == "wf-demo"


def structured(client):
    """JSON by a schema, written by hand and by pydantic."""
    from typing import Literal

    import pydantic

    class Animal(pydantic.BaseModel):
        kind: Literal["cat", "dog"]
        legs: int = pydantic.Field(ge=0, le=8)
        name: str = pydantic.Field(max_length=12)

    schema = {"name": "animal", "strict": True, "schema": Animal.model_json_schema()}
    for seed in range(3):
        settings = {"model": "wf-demo", "messages": STORY, "max_tokens": 120, "seed": seed}
        reply = client.chat.completions.create(
            response_format={"type": "json_schema", "json_schema": schema}, **settings
        )
        assert reply.choices[0].finish_reason == "stop", reply
        Animal.model_validate_json(reply.choices[0].message.content)
        reply = client.chat.completions.parse(response_format=Animal, **settings)
        assert isinstance(reply.choices[0].message.parsed, Animal), reply
        with client.chat.completions.stream(response_format=Animal, **settings) as events:
            for _ in events:
                pass
            assert events.get_final_completion().choices[0].message.parsed == reply.choices[0].message.parsed
    reply = client.chat.completions.create(
        extra_body={"structured_outputs": {"choice": ["yes", "no"]}}, model="wf-demo", messages=STORY
    )
    assert reply.choices[0].message.content in ("yes", "no"), reply


def errors(client):
    def refused(kind, **settings):
        try:
            client.chat.completions.create(**{"model": "wf-demo", "messages": STORY, **settings})
        except kind as error:
            return error
        raise AssertionError(f"{settings} was accepted")

    error = refused(openai.BadRequestError, temperature=-1)
    assert error.param == "temperature" and error.code == "invalid_value"
    error = refused(openai.NotFoundError, model="gpt-4")
    assert error.code == "model_not_found"
    error = refused(openai.BadRequestError, functions=[{}])
    assert error.param == "functions[0].name" and error.code == "invalid_value"
    error = refused(openai.BadRequestError, max_tokens=5000)
    assert error.code == "context_length_exceeded" and "2048" in str(error)
    raw = client.chat.completions.with_raw_response.create(
        model="wf-demo", messages=STORY, max_tokens=1, extra_headers={"x-request-id": "abc-1"}
    )
    assert raw.headers["x-request-id"] == "abc-1"


def embeddings(client):
    """The package requests base64 by default; both encodings contain the same numbers."""
    texts = ["A cat sat on the mat.", "A dog ran in the park.", "The cat sat on a mat."]
    answer = client.embeddings.create(model="wf-demo", input=texts)
    vectors = [item.embedding for item in answer.data]
    plain = client.embeddings.create(model="wf-demo", input=texts, encoding_format="float")
    # JSON has the shortest digits that identify a float, base64 its bits.
    assert [floats(item.embedding) for item in plain.data] == [floats(vector) for vector in vectors]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > len(texts)
    for text, vector in zip(texts, vectors):
        [alone] = client.embeddings.create(model="wf-demo", input=text).data
        assert alone.embedding == vector
        assert abs(sum(number * number for number in vector) - 1) < 1e-5
    assert cosine(vectors[0], vectors[2]) > cosine(vectors[0], vectors[1])
    [tokens] = client.embeddings.create(model="wf-demo", input=[1, 2, 3]).data
    [lists] = client.embeddings.create(model="wf-demo", input=[[1, 2, 3]], dimensions=16).data
    assert len(tokens.embedding) == len(vectors[0]) and len(lists.embedding) == 16
    try:
        client.embeddings.create(model="wf-demo", input=["a", ""])
        raise AssertionError("an empty text was accepted")
    except openai.BadRequestError as error:
        assert error.param == "input[1]"


def floats(vector):
    return array.array("f", vector)


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other))


def abort(client, server):
    before = metric(server, "wf:cancelled_requests_total")
    for chunk in client.chat.completions.create(
        model="wf-demo", messages=STORY, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
    ):
        if chunk.choices and chunk.choices[0].delta.content:
            break
    client.close()
    until(lambda: metric(server, "wf:cancelled_requests_total") == before + 1)
    until(lambda: metric(server, "wf:kv_pages_in_use") == 0)


def metric(server, name):
    with urllib.request.urlopen(server.url + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


def keys(binary):
    with Server(binary, env={"WF_API_KEY": "secret"}) as server:
        try:
            openai.OpenAI(base_url=server.base_url, api_key="wrong").models.list()
            raise AssertionError("a wrong key was accepted")
        except openai.AuthenticationError as error:
            assert error.code == "invalid_api_key"
        assert openai.OpenAI(base_url=server.base_url, api_key="secret").models.list().data


def retries(binary):
    """Twelve clients of a server with three slots: all get a response in the end."""
    from concurrent.futures import ThreadPoolExecutor

    with Server(binary, "--max-running", "1", "--max-waiting", "2") as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=60)

        def ask(seed):
            return client.chat.completions.create(
                model="wf-demo", messages=STORY, max_tokens=60, seed=seed
            ).choices[0].message.content

        with ThreadPoolExecutor(12) as callers:
            crowded = list(callers.map(ask, range(12)))
        assert crowded == [ask(seed) for seed in range(12)]
        with urllib.request.urlopen(server.url + "/metrics") as answer:
            assert 'status="429"' in answer.read().decode(), "no request was rejected"


def main(binary):
    with Server(binary) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        text = chat(client)
        stream(client, text)
        choices(client)
        completions(client)
        embeddings(client)
        models(client)
        structured(client)
        errors(client)
        abort(client, server)
        assert server.stop() == 0
    keys(binary)
    retries(binary)


main(sys.argv[1])
print("openai (Python):", openai.__version__, "ok")
