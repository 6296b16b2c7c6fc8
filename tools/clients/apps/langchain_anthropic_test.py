"""langchain-anthropic: its default of more tokens than the context has, streams and tools."""

from typing import Literal

from bench import STORY, Bench, ok
import pydantic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage


class Weather(pydantic.BaseModel):
    """The weather of a place."""

    unit: Literal["C", "F"]


with Bench("--context", "2048") as bench:
    model = ChatAnthropic(model="wf-demo", base_url=bench.url, api_key="none", temperature=0)
    short = model.bind(max_tokens=24)
    assert short.invoke(STORY).content == bench.chat()
    assert "".join(part.content for part in short.stream(STORY) if isinstance(part.content, str)) == bench.chat()
    assert model.get_num_tokens_from_messages([HumanMessage(STORY)]) > 5
    called = model.bind_tools([Weather], tool_choice="any").invoke("What is the weather?", max_tokens=300)
    assert called.tool_calls, called
    for call in called.tool_calls:
        Weather.model_validate(call["args"])
    # More tokens than the context has are as many as fit.
    full = model.invoke(STORY, max_tokens=64000)
    assert full.response_metadata["stop_reason"] in ("end_turn", "model_context_window_exceeded"), full
    bench.none_refused("/v1/messages", "/v1/messages/count_tokens")
ok("langchain-anthropic")
