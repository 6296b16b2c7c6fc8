"""haystack: a pipeline with its generator for OpenAI, streams and embeddings."""

from bench import STORY, Bench, ok
from haystack import Pipeline
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

with Bench() as bench:
    server = {"api_base_url": bench.base_url, "api_key": Secret.from_token("none"), "model": "wf-demo"}
    parts = []
    for callback in (None, lambda part: parts.append(part.content)):
        pipeline = Pipeline()
        settings = {"max_tokens": 24, "temperature": 0}
        pipeline.add_component(
            "model", OpenAIChatGenerator(**server, generation_kwargs=settings, streaming_callback=callback)
        )
        done = pipeline.run({"model": {"messages": [ChatMessage.from_user(STORY)]}})
        assert done["model"]["replies"][0].text == bench.chat()
    assert "".join(parts) == bench.chat()
    assert OpenAITextEmbedder(**server).run("a cat")["embedding"] == bench.embeddings(["a cat"])[0]
    bench.none_refused("/v1/chat/completions", "/v1/embeddings")
ok("haystack-ai")
