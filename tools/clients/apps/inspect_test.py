"""inspect-ai: its providers of OpenAI (chat, responses), Anthropic, Ollama and vLLM, and an evaluation."""

import asyncio
import os

from bench import STORY, Bench, ok
from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import exact

CONFIG = GenerateConfig(max_tokens=24, temperature=0)


async def answers(bench):
    chat = {"base_url": bench.base_url, "api_key": "none"}
    for name, settings in [
        ("openai/wf-demo", {**chat, "responses_api": False}),
        ("openai/wf-demo", {**chat, "responses_api": True}),
        ("openai-api/wf/wf-demo", chat),
        ("vllm/wf-demo", chat),
        ("sglang/wf-demo", chat),
        ("ollama/wf-demo", chat),
        ("anthropic/wf-demo", {"base_url": bench.url, "api_key": "none"}),
    ]:
        model = get_model(name, config=CONFIG, memoize=False, **settings)
        reply = await model.generate(STORY)
        assert reply.completion == bench.chat(), (name, reply.completion)
        yield name, model
    # Its default for this provider is more than the context has.
    unlimited = get_model("anthropic/wf-demo", base_url=bench.url, api_key="none", memoize=False)
    reply = await unlimited.generate(STORY, config=GenerateConfig(temperature=0))
    assert reply.completion, reply


async def models(bench):
    return [model async for _, model in answers(bench)]


with Bench("--context", "2048") as bench:
    os.environ["INSPECT_LOG_DIR"] = str(bench.home)
    asyncio.run(models(bench))
    model = get_model("openai-api/wf/wf-demo", base_url=bench.base_url, api_key="none", config=CONFIG)
    task = Task(dataset=[Sample(input=STORY, target=bench.chat())], scorer=exact())
    [log] = eval(task, model=model, display="none", log_dir=str(bench.home))
    assert log.status == "success" and log.results.scores[0].metrics["mean"].value == 1.0, log
    bench.none_refused("/v1/chat/completions", "/v1/responses", "/v1/messages")
ok("inspect-ai")
