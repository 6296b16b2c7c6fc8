"""openai-agents: both APIs of OpenAI, streams, and a tool that has to be called."""

import asyncio

from bench import STORY, Bench, ok
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent

numbers = []


@function_tool
def double(is_large: bool) -> str:
    """Doubles a number."""
    numbers.append(is_large)
    return f"doubled {is_large}"


async def streamed(agent):
    text = ""
    async for event in Runner.run_streamed(agent, STORY).stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            text += event.data.delta
    return text


with Bench() as bench:
    client = AsyncOpenAI(base_url=bench.base_url, api_key="none")
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind("wf-demo", client)
        agent = Agent("story", model=model, model_settings=ModelSettings(temperature=0, max_tokens=300))
        assert Runner.run_sync(agent, STORY).final_output == bench.chat(max_tokens=300)
        assert asyncio.run(streamed(agent)) == bench.chat(max_tokens=300)
        settings = ModelSettings(tool_choice="required", max_tokens=200, parallel_tool_calls=False)
        caller = Agent("caller", model=model, tools=[double], model_settings=settings,
                       tool_use_behavior="stop_on_first_tool")
        assert Runner.run_sync(caller, "Double it").final_output == f"doubled {numbers[-1]}"
    bench.none_refused("/v1/chat/completions", "/v1/responses")
ok("openai-agents")
