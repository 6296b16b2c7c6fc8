"""pydantic-ai: models of OpenAI (chat, responses) and Anthropic, streams, typed output and tools."""

import asyncio
from typing import Literal

from bench import STORY, Bench, ok
import anthropic
import pydantic
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    tame: bool


async def streamed(agent):
    async with agent.run_stream(STORY) as stream:
        return await stream.get_output()


with Bench() as bench:
    ours = OpenAIProvider(base_url=bench.base_url, api_key="none")
    client = anthropic.AsyncAnthropic(base_url=bench.url, api_key="none")
    chat = OpenAIChatModel("wf-demo", provider=ours)
    messages = AnthropicModel("wf-demo", provider=AnthropicProvider(anthropic_client=client))
    for model in (chat, OpenAIResponsesModel("wf-demo", provider=ours), messages):
        agent = Agent(model, model_settings={"max_tokens": 24, "temperature": 0})
        assert agent.run_sync(STORY).output == bench.chat(), model
        assert asyncio.run(streamed(agent)) == bench.chat(), model
    # Without a limit, its Anthropic model asks for 4,096 tokens; typed output is a tool call that it demands.
    for model, output in [(chat, NativeOutput(Animal)), (chat, Animal), (messages, Animal)]:
        agent = Agent(model, output_type=output, model_settings={"max_tokens": 200}, retries=0)
        assert isinstance(agent.run_sync("Tell me of an animal").output, Animal)
    bench.none_refused("/v1/chat/completions", "/v1/responses", "/v1/messages")
ok("pydantic-ai-slim")
