"""oterm: its list of models, and the agent behind its chat window."""

import asyncio
import os

from bench import STORY, Bench, ok

with Bench() as bench:
    os.environ.update(OLLAMA_URL=bench.url, OTERM_DATA_DIR=str(bench.home))
    from oterm.agent import get_agent
    from oterm.providers import ollama

    assert [model.model for model in ollama.list_models().models] == ["wf-demo"]
    assert "completion" in ollama.show_model("wf-demo").capabilities
    agent = get_agent("ollama", "wf-demo", parameters={"max_tokens": 24, "temperature": 0})
    assert asyncio.run(agent.run(STORY)).output == bench.chat()
    bench.none_refused("/api/tags", "/api/show", "/v1/chat/completions")
ok("oterm")
