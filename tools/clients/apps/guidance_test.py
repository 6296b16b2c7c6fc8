"""guidance: grammars by its vLLM model, which sends each constraint under two names, and chat by its OpenAI model."""

import json
import re

from bench import STORY, Bench, ok
from guidance import assistant, gen, models, select, user
from guidance import json as json_by_schema
from guidance.models.experimental import VLLMModel

SCHEMA = {"type": "object", "properties": {"legs": {"enum": [2, 4]}}, "required": ["legs"],
          "additionalProperties": False}

with Bench() as bench:
    model = VLLMModel("wf-demo", base_url=bench.base_url, api_key="none", echo=False)
    with user():
        model += STORY
    with assistant():
        chosen = model + select(["cat", "dog"], name="kind")
        assert chosen["kind"] in ("cat", "dog")
        assert re.fullmatch(r"[0-9]{3}", (model + gen("digits", regex=r"[0-9]{3}"))["digits"])
        typed = model + json_by_schema(name="animal", schema=SCHEMA, max_tokens=60)
        assert json.loads(typed["animal"])["legs"] in (2, 4)
    plain = models.OpenAI("wf-demo", base_url=bench.base_url, api_key="none", echo=False)
    with user():
        plain += STORY
    with assistant():
        plain += gen("text", max_tokens=24, temperature=0)
    assert plain["text"] == bench.chat()
    bench.none_refused("/v1/chat/completions")
ok("guidance")
