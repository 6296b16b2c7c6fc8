"""ag2: an agent asks, and continues the conversation."""

import asyncio

from bench import STORY, Bench, ok
from ag2 import Agent
from ag2.config import OpenAIConfig


async def talk(bench):
    config = OpenAIConfig(model="wf-demo", base_url=bench.base_url, api_key="none", temperature=0, max_tokens=24)
    agent = Agent("teller", prompt="Be kind.", config=config)
    first = await agent.ask(STORY)
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": STORY}]
    assert first.body == bench.chat(messages), first.body
    second = await first.ask("Go on")
    messages += [{"role": "assistant", "content": first.body}, {"role": "user", "content": "Go on"}]
    assert second.body == bench.chat(messages), second.body


with Bench() as bench:
    asyncio.run(talk(bench))
    bench.none_refused("/v1/chat/completions")
ok("ag2")
