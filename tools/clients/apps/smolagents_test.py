"""smolagents: models by litellm's Ollama provider and by OpenAI's API, and an agent that calls a tool."""

from bench import STORY, Bench, ok
from smolagents import ChatMessage, LiteLLMModel, OpenAIServerModel, ToolCallingAgent, tool

MESSAGES = [ChatMessage(role="user", content=[{"type": "text", "text": STORY}])]


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return 2 * number


def called(bench):
    """Returns the calls of one step. The agent demands a call, so it gets one."""
    settings = {"max_tokens": 300, "seed": 3, "parallel_tool_calls": False}
    model = OpenAIServerModel("wf-demo", api_base=bench.base_url, api_key="none", **settings)
    steps = []
    agent = ToolCallingAgent([double], model, max_steps=1, verbosity_level=0, step_callbacks=[steps.append])
    agent.run("Double 21")
    return [call for step in steps for call in getattr(step, "tool_calls", None) or []]


with Bench() as bench:
    expected = bench.chat()
    settings = {"max_tokens": 24, "temperature": 0}
    for model in [
        LiteLLMModel("ollama_chat/wf-demo", api_base=bench.url, **settings),
        OpenAIServerModel("wf-demo", api_base=bench.base_url, api_key="none", **settings),
    ]:
        assert model.generate(MESSAGES).content == expected
        assert "".join(part.content or "" for part in model.generate_stream(MESSAGES)) == expected
    [call] = called(bench)
    assert call.name in ("double", "final_answer"), call
    bench.none_refused("/api/chat", "/v1/chat/completions", but=("/api/chat/api/show",))
ok("smolagents")
