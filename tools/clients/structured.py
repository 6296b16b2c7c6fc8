"""Structured output: the helpers of `openai`, `anthropic` and `ollama`, and many schemas with `instructor`."""

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, List, Literal, Optional, Union

import anthropic
import instructor
import jsonschema
import ollama
import openai
import pydantic
from server import Server

ASKED = [{"role": "user", "content": "Tell me of an animal"}]


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    legs: int = pydantic.Field(ge=0, le=8)
    name: str = pydantic.Field(max_length=12)


def with_responses(server):
    client = openai.OpenAI(base_url=server.base_url, api_key="none")
    settings = {"model": "wf-demo", "input": ASKED, "max_output_tokens": 120, "temperature": 0}
    answer = client.responses.parse(text_format=Animal, **settings)
    assert isinstance(answer.output_parsed, Animal), answer
    assert answer.status == "completed" and answer.text.format.type == "json_schema"
    with client.responses.stream(text_format=Animal, **settings) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == answer.output_parsed
    return answer.output_parsed


def with_anthropic(server, expected):
    client = anthropic.Anthropic(base_url=server.url, api_key="none")
    settings = {"model": "wf-demo", "messages": ASKED, "max_tokens": 120, "extra_body": {"temperature": 0}}
    # The helper removes bounds from the schema and checks them afterwards, so the request is written by hand.
    schema = {"type": "json_schema", "schema": Animal.model_json_schema()}
    reply = client.messages.create(**settings, output_config={"format": schema})
    assert Animal.model_validate_json(reply.content[0].text) == expected

    class Choice(pydantic.BaseModel):
        kind: Literal["cat", "dog"]
        is_kind: bool

    reply = client.messages.parse(**settings, output_format=Choice)
    assert isinstance(reply.parsed_output, Choice), reply


def with_ollama(server, expected):
    client = ollama.Client(host=server.url)
    settings = {"model": "wf-demo", "options": {"temperature": 0, "num_predict": 120}}
    reply = client.chat(**settings, messages=ASKED, format=Animal.model_json_schema())
    assert Animal.model_validate_json(reply.message.content) == expected
    reply = client.generate(**settings, prompt=ASKED[0]["content"], format=Animal.model_json_schema())
    assert Animal.model_validate_json(reply.response) == expected
    reply = client.chat(**settings, messages=ASKED, format="json")
    assert reply.message.content.startswith("{")


class Schemas:
    """Yields random models with values of bounded length."""

    WORDS = "name kind age colour size list of parts owner is_open größe 名前 a-b x.y".split()

    def __init__(self, seed):
        self.random = random.Random(seed)

    def kind(self, depth):
        draw = self.random
        kinds = [self.text, self.number, self.choice, lambda: (bool, ...), self.real]
        if depth < 3:
            nested = [
                lambda: (self.model(depth + 1), ...),
                lambda: (Annotated[List[self.kind(depth + 1)[0]], pydantic.Field(max_length=draw.randint(0, 3))], ...),
                lambda: (Optional[self.kind(depth + 1)[0]], draw.choice([..., None])),
                lambda: (Union[self.model(depth + 1), self.model(depth + 1)], ...),
            ]
            kinds += nested * 2
        return draw.choice(kinds)()

    def text(self):
        if self.random.random() < 0.3:
            pattern = self.random.choice([r"^[A-Z][a-z]{1,8}$", r"^\d{3}-\d{4}$", r"^(red|green) (cat|dog)$"])
            return (pydantic.constr(pattern=pattern), ...)
        least = self.random.randint(0, 3)
        return (pydantic.constr(min_length=least, max_length=least + self.random.randint(1, 12)), ...)

    def number(self):
        least = self.random.randint(-1000, 1000)
        most = least + self.random.choice([0, 1, 9, 12345])
        return (pydantic.conint(ge=least, le=most), ...)

    def real(self):
        least = self.random.randint(-5, 5) / 2
        return (pydantic.confloat(ge=least, le=least + self.random.choice([0.5, 3, 1000])), ...)

    def choice(self):
        words = self.random.sample(self.WORDS, self.random.randint(1, 4))
        return (Literal[tuple(words)], ...)

    def model(self, depth=0):
        names = self.random.sample(self.WORDS, self.random.randint(1, 4 if depth else 6))
        fields = {}
        for at, name in enumerate(names):
            kind, default = self.kind(depth)
            fields[f"f{at}"] = (kind, pydantic.Field(default, alias=name))
        return pydantic.create_model("Asked", __doc__="What is asked for.", **fields)


def with_instructor(server, many):
    """Each response is a valid object of its model at the first attempt."""
    client = instructor.from_openai(
        openai.OpenAI(base_url=server.base_url, api_key="none", timeout=600),
        mode=instructor.Mode.JSON_SCHEMA,
    )

    def ask(seed):
        model = Schemas(seed).model()
        words = random.Random(seed).sample(Schemas.WORDS, 3)
        reply = client.chat.completions.create_with_completion(
            model="wf-demo", response_model=model, max_retries=0, seed=seed, max_tokens=1200,
            temperature=seed % 3 / 2, messages=[{"role": "user", "content": f"Tell me of {' '.join(words)}"}],
        )
        text = reply[1].choices[0].message.content
        jsonschema.validate(json.loads(text), model.model_json_schema())
        assert isinstance(reply[0], pydantic.BaseModel), text

    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(ask, range(many)):
            pass


def main(binary, many):
    with Server(binary) as server:
        animal = with_responses(server)
        with_anthropic(server, animal)
        with_ollama(server, animal)
        with_instructor(server, many)
        assert server.stop() == 0


main(sys.argv[1], int(sys.argv[2]))
print(f"structured output: instructor with {sys.argv[2]} schemas ok")
