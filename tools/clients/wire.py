"""Validates responses of the server against the types that the client packages publish.

The packages parse leniently: a missing field, or one of another type, goes unnoticed until it is used. Here pydantic
validates every response and every event against the published type.
"""

import http.client
import json
import sys

import anthropic.types
import ollama
import openai.types
import openai.types.chat
import openai.types.responses
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from server import Server

counts = {}


def valid(kind, value, name=None):
    TypeAdapter(kind).validate_python(value)
    name = name or kind.__name__
    counts[name] = counts.get(name, 0) + 1
    return value


def send(server, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    method = "GET" if body is None else "POST"
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, f"{path} {body}: {answer.status} {text}"
    return text


def events(server, path, body):
    """Yields the data of each event, and checks that the event name equals its type."""
    for event in send(server, path, {**body, "stream": True}).strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n") if not line.startswith(":"))
        if fields.get("data") in (None, "[DONE]"):
            continue
        value = json.loads(fields["data"])
        assert "event" not in fields or fields["event"] == value["type"], fields
        yield value


MESSAGES = [{"role": "user", "content": "Tell me a story about a dragon."}]
ANIMAL = {
    "type": "object",
    "properties": {"name": {"enum": ["cat", "dog"]}, "legs": {"type": "integer", "maximum": 9, "minimum": 0}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}


def chats():
    plain = {"model": "wf-demo", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    schema = {"name": "animal", "strict": True, "schema": ANIMAL}
    for more in [
        {},
        {"n": 2, "seed": 3, "temperature": 1},
        {"logprobs": True, "top_logprobs": 3},
        {"stop": ["a"]},
        {"response_format": {"type": "json_schema", "json_schema": schema}, "max_tokens": 40},
        {"decode": "diffusion"},
        {"tools": [{"type": "function", "function": {"name": "note", "parameters": ANIMAL}}],
         "tool_choice": "required", "max_tokens": 200},
    ]:
        yield {**plain, **more}


def openai_answers(server):
    for body in chats():
        valid(openai.types.chat.ChatCompletion, json.loads(send(server, "/v1/chat/completions", body)))
        body["stream_options"] = {"include_usage": True}
        for event in events(server, "/v1/chat/completions", body):
            valid(openai.types.chat.ChatCompletionChunk, event)
    for more in [{}, {"logprobs": 2}, {"echo": True}, {"prompt": ["Once", "A dog"], "n": 2}]:
        body = {"model": "wf-demo", "prompt": "Once upon", "max_tokens": 8, **more}
        valid(openai.types.Completion, json.loads(send(server, "/v1/completions", body)))
        for event in events(server, "/v1/completions", body):
            # The type is that of complete responses; in streams, OpenAI's server also sends null until the end.
            for choice in event["choices"]:
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            valid(openai.types.Completion, event)
    tool = {"type": "function", "name": "note", "parameters": ANIMAL, "strict": True}
    for more in [
        {},
        {"temperature": 0, "instructions": "Be brief."},
        {"tools": [tool], "tool_choice": "required", "max_output_tokens": 200},
    ]:
        body = {"model": "wf-demo", "input": "Tell me a story.", "max_output_tokens": 12, **more}
        valid(openai.types.responses.Response, json.loads(send(server, "/v1/responses", body)))
        for event in events(server, "/v1/responses", body):
            valid(ResponseStreamEvent, event, "ResponseStreamEvent")
    vectors = json.loads(send(server, "/v1/embeddings", {"model": "wf-demo", "input": ["a cat", "a dog"]}))
    valid(openai.types.CreateEmbeddingResponse, vectors)
    models = json.loads(send(server, "/v1/models"))
    for model in models["data"]:
        valid(openai.types.Model, model)


def anthropic_answers(server):
    body = {"model": "wf-demo", "messages": MESSAGES, "max_tokens": 12}
    tool = {"name": "note", "input_schema": ANIMAL}
    for more in [
        {},
        {"system": "Be brief.", "temperature": 0},
        {"stop_sequences": ["a"]},
        {"tools": [tool], "tool_choice": {"type": "any"}, "max_tokens": 200},
    ]:
        valid(anthropic.types.Message, json.loads(send(server, "/v1/messages", {**body, **more})))
        for event in events(server, "/v1/messages", {**body, **more}):
            if event["type"] != "ping":
                valid(anthropic.types.RawMessageStreamEvent, event, "RawMessageStreamEvent")
    counted = send(server, "/v1/messages/count_tokens", {"model": "wf-demo", "messages": MESSAGES})
    valid(anthropic.types.MessageTokensCount, json.loads(counted))


def ollama_answers(server):
    options = {"num_predict": 12}
    for streams in [False, True]:
        body = {"model": "wf-demo", "options": options, "stream": streams}
        for line in send(server, "/api/chat", {**body, "messages": MESSAGES}).splitlines():
            valid(ollama.ChatResponse, json.loads(line))
        for line in send(server, "/api/generate", {**body, "prompt": "Once"}).splitlines():
            valid(ollama.GenerateResponse, json.loads(line))
    embedded = send(server, "/api/embed", {"model": "wf-demo", "input": ["a cat", "a dog"]})
    valid(ollama.EmbedResponse, json.loads(embedded))
    valid(ollama.ListResponse, json.loads(send(server, "/api/tags")))
    valid(ollama.ProcessResponse, json.loads(send(server, "/api/ps")))
    valid(ollama.ShowResponse, json.loads(send(server, "/api/show", {"model": "wf-demo"})))


with Server(sys.argv[1]) as server:
    openai_answers(server)
    anthropic_answers(server)
    ollama_answers(server)
print("wire types: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + ": ok")
