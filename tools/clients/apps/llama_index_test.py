"""llama-index: chat, completion, streams and embeddings of a server that is like OpenAI's."""

from array import array

from bench import STORY, Bench, ok
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

def pack(*numbers):
    return array("f", numbers)


with Bench() as bench:
    server = {"api_base": bench.base_url, "api_key": "none"}
    model = OpenAILike("wf-demo", is_chat_model=True, max_tokens=24, temperature=0, **server)
    messages = [ChatMessage(STORY)]
    assert model.chat(messages).message.content == bench.chat()
    assert "".join(part.delta or "" for part in model.stream_chat(messages)) == bench.chat()
    texts = ["a cat", "a dog"]
    vectors = OpenAILikeEmbedding("wf-demo", **server).get_text_embedding_batch(texts)
    # They come in base64, as 32-bit numbers.
    assert [pack(*vector) for vector in vectors] == [pack(*vector) for vector in bench.embeddings(texts)]
    bench.none_refused("/v1/chat/completions", "/v1/embeddings")
ok("llama-index-llms-openai-like")
