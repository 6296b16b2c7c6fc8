"""dspy: text by four providers, and a schema."""

import json

from bench import STORY, Bench, ok
import dspy


SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}}, "required": ["kind"],
          "additionalProperties": False}

with Bench() as bench:
    settings = {"api_key": "none", "cache": False}
    chat = dspy.LM("openai/wf-demo", api_base=bench.base_url, **settings)
    for model in [
        chat,
        dspy.LM("openai/wf-demo", api_base=bench.base_url, model_type="responses", **settings),
        dspy.LM("ollama_chat/wf-demo", api_base=bench.url, **settings),
        dspy.LM("anthropic/wf-demo", api_base=bench.url, **settings),
    ]:
        [text] = model(STORY, temperature=0, max_tokens=24)
        text = text if isinstance(text, str) else text["text"]
        assert text == bench.chat(), (model.model, text)
    schema = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
    [text] = chat("What barks?", max_tokens=60, response_format=schema)
    assert json.loads(text)["kind"] in ("cat", "dog"), text
    # The last two providers leave `/v1` out, which the server accepts.
    bench.none_refused("/v1/chat/completions", "/v1/responses")
ok("dspy")
