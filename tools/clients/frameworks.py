"""Tests with the frameworks litellm and langchain-openai."""

import sys
from typing import Literal

import litellm
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from server import Server


def with_litellm(server):
    ask = dict(
        model="openai/wf-demo", api_base=server.base_url, api_key="none", max_tokens=16, seed=5,
        messages=[{"role": "user", "content": "Tell me a story"}],
    )
    whole = litellm.completion(**ask)
    parts = [
        chunk.choices[0].delta.content or "" for chunk in litellm.completion(**ask, stream=True)
    ]
    assert "".join(parts) == whole.choices[0].message.content
    assert whole.usage.completion_tokens == 16
    try:
        litellm.completion(**{**ask, "temperature": 101})
        raise AssertionError("a temperature of 101 was accepted")
    except litellm.BadRequestError as error:
        assert "temperature" in str(error)


def with_langchain(server):
    model = ChatOpenAI(
        base_url=server.base_url, api_key="none", model="wf-demo", max_tokens=16, seed=5
    )
    whole = model.invoke("Tell me a story")
    assert whole.usage_metadata["output_tokens"] == 16
    assert "".join(chunk.content for chunk in model.stream("Tell me a story")) == whole.content
    several = model.batch(["Tell me a story"] * 4)
    assert {reply.content for reply in several} == {whole.content}
    tools_of_langchain(server)


class Weather(pydantic.BaseModel):
    """The weather of a place."""

    unit: Literal["C", "F"]
    days: Literal[1, 2, 3]


def tools_of_langchain(server):
    model = ChatOpenAI(
        base_url=server.base_url, api_key="none", model="wf-demo", max_tokens=400, seed=5
    )
    asked = [HumanMessage("What is the weather?")]
    for choice in ("any", "Weather"):
        called = model.bind_tools([Weather], tool_choice=choice, parallel_tool_calls=False)
        said = called.invoke(asked)
        [call] = said.tool_calls
        Weather.model_validate(call["args"])
        whole = None
        for chunk in called.stream(asked):
            whole = chunk if whole is None else whole + chunk
        assert [one["args"] for one in whole.tool_calls] == [call["args"]]
    given = ToolMessage("rain", tool_call_id=call["id"])
    short = model.bind(max_tokens=8).bind_tools([Weather])
    assert short.invoke([*asked, said, given]).content
    typed = model.with_structured_output(Weather, method="function_calling")
    assert isinstance(typed.invoke("What is the weather?"), Weather)


def structured_with_langchain(server):
    class Animal(pydantic.BaseModel):
        """An animal."""

        kind: Literal["cat", "dog"]
        legs: int = pydantic.Field(ge=0, le=8)
        name: str = pydantic.Field(max_length=12)

    model = ChatOpenAI(
        base_url=server.base_url, api_key="none", model="wf-demo", max_tokens=120, seed=5
    )
    animal = model.with_structured_output(Animal).invoke("Tell me of an animal")
    assert isinstance(animal, Animal), animal
    plain = model.with_structured_output(Animal.model_json_schema(), method="json_schema")
    assert Animal(**plain.invoke("Tell me of an animal")) == animal
    for part in model.with_structured_output(Animal).stream("Tell me of an animal"):
        last = part
    assert last == animal


def with_langchain_embeddings(server):
    # Without this setting it would send token ids of OpenAI's tokenizer.
    model = OpenAIEmbeddings(
        base_url=server.base_url, api_key="none", model="wf-demo", check_embedding_ctx_length=False
    )
    documents = model.embed_documents(["a cat", "a dog"])
    assert documents[0] == model.embed_query("a cat") != documents[1]


with Server(sys.argv[1]) as running:
    with_litellm(running)
    with_langchain(running)
    structured_with_langchain(running)
    with_langchain_embeddings(running)
print("litellm, langchain-openai: ok")
