"""chromadb: a collection with embeddings of the server finds a text."""

from bench import Bench, ok
import chromadb
from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction
from chromadb.utils.embedding_functions.ollama_embedding_function import OllamaEmbeddingFunction

TEXTS = ["A cat sat on the mat.", "The king went to war.", "Seven and five are twelve."]

with Bench() as bench:
    client = chromadb.EphemeralClient()
    for name, embed in [
        ("openai", OpenAIEmbeddingFunction(api_key="none", api_base=bench.base_url, model_name="wf-demo")),
        ("ollama", OllamaEmbeddingFunction(url=bench.url, model_name="wf-demo")),
    ]:
        collection = client.create_collection(name, embedding_function=embed)
        collection.add(ids=["a", "b", "c"], documents=TEXTS)
        found = collection.query(query_texts=[TEXTS[1]], n_results=1)
        assert found["documents"] == [[TEXTS[1]]] and found["distances"][0][0] < 1e-6, found
    bench.none_refused("/v1/embeddings", "/api/embed")
ok("chromadb")
