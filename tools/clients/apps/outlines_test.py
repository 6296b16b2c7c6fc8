"""outlines: choices, expressions and schemas by its models of vLLM and SGLang, and text by that of OpenAI."""

import json
import re
from typing import Literal

from bench import STORY, Bench, ok
import openai
import outlines
import pydantic
from outlines.types import Regex


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    tame: bool


with Bench() as bench:
    client = openai.OpenAI(base_url=bench.base_url, api_key="none")
    settings = {"max_tokens": 60, "temperature": 0}
    for make in (outlines.from_vllm, outlines.from_sglang):
        model = make(client, "wf-demo")
        assert model(STORY, max_tokens=24, temperature=0) == bench.chat()
        assert model("A cat or a dog?", Literal["cat", "dog"], **settings) in ("cat", "dog")
        assert re.fullmatch(r"[0-9]{3}", model("A number", Regex(r"[0-9]{3}"), **settings))
        Animal.model_validate_json(model("An animal", Animal, **settings))
    model = outlines.from_openai(client, "wf-demo")
    assert "".join(model.stream(STORY, max_tokens=24, temperature=0)) == bench.chat()
    Animal.model_validate(json.loads(model("An animal", Animal, **settings)))
    bench.none_refused("/v1/chat/completions")
ok("outlines")
