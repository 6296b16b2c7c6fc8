"""The `responses` of the `openai` package: complete, streamed, continued, rejected."""

import sys

import openai
from server import Server

ASKED = "Tell me a story about a cat"
STORY = {
    "model": "wf-demo",
    "input": ASKED,
    "instructions": "Be kind",
    "max_output_tokens": 24,
    "temperature": 0,
    "store": False,
}


def whole(client):
    answer = client.responses.create(**STORY)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 24
    messages = [{"role": "system", "content": "Be kind"}, {"role": "user", "content": ASKED}]
    chat = client.chat.completions.create(
        model="wf-demo", messages=messages, max_tokens=24, temperature=0
    )
    assert answer.output_text == chat.choices[0].message.content
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    turns = [{"role": "user", "content": ASKED}, *answer.output, {"role": "user", "content": "And?"}]
    assert client.responses.create(**{**STORY, "input": turns}).output_text
    return answer.output_text


def streams(client, expected):
    events = list(client.responses.create(**STORY, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected and len(deltas) > 10
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == expected
    # A response that ends by itself is complete; the package's helper assembles the stream.
    with client.responses.stream(**{**STORY, "max_output_tokens": 1500}) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert final.status == "completed" and final.output_text == "".join(texts)


def errors(client):
    for name, value in [("previous_response_id", "resp_1"), ("tools[0].type", [{"type": "sorcery"}])]:
        try:
            client.responses.create(**STORY, **{name.partition("[")[0]: value})
            raise AssertionError(f"{name} was accepted")
        except openai.BadRequestError as error:
            assert error.param == name and error.code == "unsupported_parameter"


def main(binary):
    with Server(binary) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        text = whole(client)
        streams(client, text)
        errors(client)
        assert server.stop() == 0


main(sys.argv[1])
print("openai responses (Python):", openai.__version__, "ok")
