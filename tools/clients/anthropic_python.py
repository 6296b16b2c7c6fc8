"""The `anthropic` package: messages, streams, stop sequences, token counts, errors, keys."""

import sys

import anthropic
import openai
from server import Server

ASKED = "Tell me a story about a cat"
STORY = {
    "model": "wf-demo",
    "messages": [{"role": "user", "content": ASKED}],
    "system": "Be kind",
    "max_tokens": 24,
    "extra_body": {"temperature": 0},
}


def same_answer(client, server):
    """The text equals that of OpenAI's client."""
    reply = client.messages.create(**STORY)
    assert reply.role == "assistant" and reply.stop_reason == "max_tokens"
    assert reply.usage.output_tokens == 24
    messages = [{"role": "system", "content": "Be kind"}, {"role": "user", "content": ASKED}]
    other = openai.OpenAI(base_url=server.base_url, api_key="none").chat.completions.create(
        model="wf-demo", messages=messages, max_tokens=24, temperature=0
    )
    assert [block.text for block in reply.content] == [other.choices[0].message.content]
    counted = client.messages.count_tokens(
        model="wf-demo", messages=STORY["messages"], system=STORY["system"]
    )
    assert counted.input_tokens == other.usage.prompt_tokens
    return reply.content[0].text


def streams(client, expected):
    with client.messages.stream(**STORY) as stream:
        assert "".join(stream.text_stream) == expected
        final = stream.get_final_message()
    assert final.content[0].text == expected and final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 24
    kinds = [event.type for event in client.messages.create(**STORY, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def stops(client, expected):
    word = expected.split()[4]
    reply = client.messages.create(**STORY, stop_sequences=[word])
    assert reply.stop_reason == "stop_sequence" and reply.stop_sequence == word
    assert expected.startswith(reply.content[0].text) and word not in reply.content[0].text


def errors(client):
    def refused(kind, **settings):
        try:
            client.messages.create(**{**STORY, **settings})
        except kind as error:
            return error
        raise AssertionError(f"{settings} was accepted")

    error = refused(anthropic.BadRequestError, extra_body={"temperature": -1})
    assert error.body["error"]["type"] == "invalid_request_error" and "temperature" in str(error)
    # Tools that Anthropic runs are ignored, and the response says so.
    tools = [{"type": "bash_20250124", "name": "bash"}]
    raw = client.messages.with_raw_response.create(**STORY, tools=tools)
    assert raw.headers["x-wf-ignored-fields"] == "tools[0]:bash_20250124", raw.headers
    refused(anthropic.NotFoundError, model="claude")
    long = [{"role": "user", "content": "word " * 3000}]
    assert "2048" in str(refused(anthropic.BadRequestError, messages=long))
    # Clients ask for more than the context holds by default.
    assert client.messages.create(**{**STORY, "max_tokens": 8192, "stop_sequences": ["."]}).content


def keys(binary):
    with Server(binary, env={"WF_API_KEY": "secret"}) as server:
        try:
            anthropic.Anthropic(base_url=server.url, api_key="wrong").messages.create(**STORY)
            raise AssertionError("a wrong key was accepted")
        except anthropic.AuthenticationError as error:
            assert error.body["error"]["type"] == "authentication_error"
        assert anthropic.Anthropic(base_url=server.url, api_key="secret").messages.create(**STORY)


def main(binary):
    with Server(binary) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none")
        text = same_answer(client, server)
        streams(client, text)
        stops(client, text)
        errors(client)
        assert server.stop() == 0
    keys(binary)


main(sys.argv[1])
print("anthropic (Python):", anthropic.__version__, "ok")
