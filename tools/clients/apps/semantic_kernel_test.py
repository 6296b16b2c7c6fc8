"""semantic-kernel: chat by its OpenAI connector, streams and embeddings."""

import asyncio

from bench import STORY, Bench, ok
from openai import AsyncOpenAI
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion, OpenAIChatPromptExecutionSettings, OpenAITextEmbedding,
)
from semantic_kernel.contents import ChatHistory


async def talk(bench):
    client = AsyncOpenAI(base_url=bench.base_url, api_key="none")
    service = OpenAIChatCompletion(ai_model_id="wf-demo", async_client=client)
    settings = OpenAIChatPromptExecutionSettings(max_tokens=24, temperature=0)
    history = ChatHistory()
    history.add_user_message(STORY)
    reply = await service.get_chat_message_content(history, settings)
    assert str(reply) == bench.chat()
    parts = service.get_streaming_chat_message_content(history, settings)
    assert "".join([str(part) async for part in parts]) == bench.chat()
    embedder = OpenAITextEmbedding(ai_model_id="wf-demo", async_client=client)
    [vector] = await embedder.generate_embeddings(["a cat"])
    assert len(vector) == len(bench.embeddings(["a cat"])[0])


with Bench() as bench:
    asyncio.run(talk(bench))
    bench.none_refused("/v1/chat/completions", "/v1/embeddings")
ok("semantic-kernel")
