"""autogen: an assistant that answers, streams, and calls a tool."""

import asyncio

from bench import STORY, Bench, ok
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown",
        "structured_output": True}


async def double(is_large: bool) -> str:
    """Doubles a number."""
    return f"doubled {is_large}"


async def talk(bench):
    client = OpenAIChatCompletionClient(
        model="wf-demo", base_url=bench.base_url, api_key="none", model_info=INFO, max_tokens=24, temperature=0
    )
    asked = [UserMessage(content=STORY, source="user")]
    assert (await client.create(asked)).content == bench.chat()
    parts = [part async for part in client.create_stream(asked)]
    assert "".join(part for part in parts if isinstance(part, str)) == bench.chat()
    agent = AssistantAgent("teller", client, system_message=None)
    done = await agent.run(task=STORY)
    assert done.messages[-1].content == bench.chat()
    caller = AssistantAgent("caller", client, tools=[double], system_message=None)
    [call] = (await client.create(asked, tools=caller._tools, tool_choice="required",
                                  extra_create_args={"max_tokens": 200, "parallel_tool_calls": False})).content
    assert call.name == "double" and call.arguments, call


with Bench() as bench:
    asyncio.run(talk(bench))
    bench.none_refused("/v1/chat/completions")
ok("autogen-agentchat")
