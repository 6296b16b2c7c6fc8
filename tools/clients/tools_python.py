"""Tool calls with the packages `openai` (chat and responses), `anthropic` and `ollama`."""

import json
import sys
from enum import Enum

import anthropic
import ollama
import openai
from pydantic import BaseModel
from server import Server


class Unit(str, Enum):
    celsius = "C"
    fahrenheit = "F"


class Place(BaseModel):
    country: Unit
    near: bool


class Weather(BaseModel):
    """The weather of a place."""

    unit: Unit
    place: Place
    days: Unit


ASKED = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOL = openai.pydantic_function_tool(Weather, name="weather")
SCHEMA = TOOL["function"]["parameters"]
BOTH = [TOOL, {"type": "function", "function": {"name": "nothing"}}]
ASK = {"model": "wf-demo", "messages": ASKED, "max_tokens": 500, "seed": 7}


def check(name, arguments):
    if name == "weather":
        Weather.model_validate(arguments)
    else:
        assert name == "nothing" and isinstance(arguments, dict), name


def chats(client):
    named = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", named):
        for temperature in (0, 1):
            reply = client.chat.completions.create(
                **ASK, tools=BOTH, tool_choice=choice, temperature=temperature
            )
            assert reply.choices[0].finish_reason == "tool_calls", reply
            for call in reply.choices[0].message.tool_calls:
                check(call.function.name, json.loads(call.function.arguments))
    parsed = client.chat.completions.parse(
        **ASK, tools=[TOOL], tool_choice="required", parallel_tool_calls=False
    )
    [call] = parsed.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Weather)
    free = client.chat.completions.create(**{**ASK, "max_tokens": 16}, tools=BOTH)
    assert free.choices[0].message.content and not free.choices[0].message.tool_calls
    return parsed.choices[0].message


def chat_streams(client):
    settings = {**ASK, "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    whole = client.chat.completions.create(**settings)
    with client.chat.completions.stream(**settings) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    kinds = [event.type for event in events]
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    [call], [other] = final.choices[0].message.tool_calls, whole.choices[0].message.tool_calls
    assert call.function.arguments == other.function.arguments
    assert isinstance(call.function.parsed_arguments, Weather)


def round_trip(client, message):
    [call] = message.tool_calls
    said = {"role": "assistant", "content": None, "tool_calls": [call.model_dump(include={"id", "type", "function"})]}
    given = {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"sky": "grey"})}
    settings = {**ASK, "messages": [*ASKED, said, given], "max_tokens": 8}
    reply = client.chat.completions.create(**settings, tools=BOTH)
    assert reply.choices[0].message.content
    without = client.chat.completions.create(**{**settings, "messages": ASKED}, tools=BOTH)
    assert reply.usage.prompt_tokens > without.usage.prompt_tokens + 20, "tools are part of the prompt"


def responses(client):
    flat = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    settings = {"model": "wf-demo", "input": ASKED, "max_output_tokens": 500, "tools": [flat],
                "tool_choice": "required", "parallel_tool_calls": False, "extra_body": {"seed": 7}}
    whole = client.responses.create(**settings)
    [call] = whole.output
    assert call.type == "function_call" and whole.status == "completed"
    check(call.name, json.loads(call.arguments))
    events = list(client.responses.create(**settings, stream=True))
    pieces = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == call.arguments and len(pieces) > 3
    assert events[-1].response.output[0].arguments == call.arguments
    given = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    settings = {**settings, "input": [*ASKED, *whole.output, given], "max_output_tokens": 8}
    assert client.responses.create(**{**settings, "tool_choice": "none"}).output_text
    parsed = client.responses.parse(
        model="wf-demo", input=ASKED, max_output_tokens=500, tool_choice="required",
        parallel_tool_calls=False, tools=[openai.pydantic_function_tool(Weather)],
    )
    assert isinstance(parsed.output[0].parsed_arguments, Weather)


def messages(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none")
    tool = {"name": "weather", "description": "The weather", "input_schema": SCHEMA}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    settings = {"model": "wf-demo", "max_tokens": 500, "messages": ASKED, "tools": [tool],
                "extra_body": {"seed": 7}}
    whole = client.messages.create(**settings, tool_choice=choice)
    [block] = whole.content
    assert block.type == "tool_use" and whole.stop_reason == "tool_use"
    check(block.name, block.input)
    with client.messages.stream(**settings, tool_choice=choice) as stream:
        pieces = [e.partial_json for e in stream if e.type == "input_json"]
        final = stream.get_final_message()
    assert final.content[0].input == block.input == json.loads("".join(pieces))
    named = client.messages.create(**settings, tool_choice={"type": "tool", "name": "weather"})
    check(named.content[0].name, named.content[0].input)
    result = [{"type": "tool_result", "tool_use_id": block.id, "content": "rain"}]
    turns = [*ASKED, {"role": "assistant", "content": whole.content}, {"role": "user", "content": result}]
    reply = client.messages.create(**{**settings, "messages": turns, "max_tokens": 8})
    assert reply.content[0].type == "text"
    assert client.messages.count_tokens(model="wf-demo", messages=turns, tools=[tool]).input_tokens > 100


def by_ollama(server):
    client = ollama.Client(host=server.url)

    def weather(place: str) -> str:
        """The weather of a place."""
        return place

    options = {"temperature": 0, "num_predict": 8}
    first = client.chat(model="wf-demo", messages=ASKED, tools=[weather], options=options)
    assert first.message.content and not first.message.tool_calls
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"place": "x"}}}]}
    turns = [*ASKED, called, {"role": "tool", "tool_name": "weather", "content": "rain"}]
    parts = list(client.chat(model="wf-demo", messages=turns, tools=[weather], options=options, stream=True))
    assert parts[-1].done and "".join(part.message.content for part in parts)
    assert "tools" in client.show("wf-demo").capabilities


def errors(client):
    def refused(param, **settings):
        try:
            client.chat.completions.create(**{**ASK, "tools": [TOOL], **settings})
            raise AssertionError(f"{settings} was accepted")
        except openai.BadRequestError as error:
            assert error.param == param, error

    refused("tool_choice", tool_choice={"type": "function", "function": {"name": "other"}})
    refused("tools[1]", tools=[TOOL, TOOL])
    wrong = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}
    refused("tools[1].function.parameters", tools=[TOOL, wrong], tool_choice="required")


def main(binary):
    with Server(binary) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        message = chats(client)
        chat_streams(client)
        round_trip(client, message)
        responses(client)
        messages(server)
        by_ollama(server)
        errors(client)
        assert server.stop() == 0


main(sys.argv[1])
print("tools by openai, anthropic and ollama (Python): ok")
