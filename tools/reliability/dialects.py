"""Requests of every dialect and decoding mode, and what their responses say about text and tokens."""

import dataclasses

MODES = ["autoregressive", "diffusion", "drafted", "lookup", "drafted+lookup", "auto"]
PROMPTS = [
    "Once upon a time there was a little dog",
    "The sun was warm and the children",
    "Lily went to the park with her mother. They saw a duck. The duck was",
    "One day, Tom found a red ball. " * 6,
    "Hello",
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Tom", "Lily"]}, "age": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["name", "age"],
}
CONSTRAINTS = [{}, {}, {"regex": "[a-z]{1,8}"}, {"choice": ["yes", "no"]}, {"json_schema": SCHEMA}]


@dataclasses.dataclass
class Answer:
    """What a response returned: the same for a request alone and under load, whole and streamed."""

    text: object
    finish: object
    prompt_tokens: int
    completion_tokens: int


def chat(prompt):
    return [{"role": "user", "content": prompt}]


def openai_usage(usage):
    return usage["prompt_tokens"], usage["completion_tokens"]


class Chat:
    path = "/v1/chat/completions"

    def body(self, prompt, tokens, seed, extra):
        return {"messages": chat(prompt), "max_tokens": tokens, "seed": seed, **extra}

    def stream(self, body):
        return {**body, "stream": True, "stream_options": {"include_usage": True}}

    def whole(self, value):
        choice = value["choices"][0]
        return Answer(choice["message"]["content"], choice["finish_reason"], *openai_usage(value["usage"]))

    def streamed(self, events):
        choices = [choice for event in events for choice in event["choices"]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
        (finish,) = (choice["finish_reason"] for choice in choices if choice["finish_reason"])
        (usage,) = (event["usage"] for event in events if event.get("usage"))
        return Answer(text, finish, *openai_usage(usage))


class Completions(Chat):
    path = "/v1/completions"

    def body(self, prompt, tokens, seed, extra):
        return {"prompt": prompt, "max_tokens": tokens, "seed": seed, "n": 2, **extra}

    def whole(self, value):
        texts = [choice["text"] for choice in value["choices"]]
        ends = [choice["finish_reason"] for choice in value["choices"]]
        return Answer(texts, ends, *openai_usage(value["usage"]))

    def streamed(self, events):
        texts, ends = ["", ""], [None, None]
        for choice in (choice for event in events for choice in event["choices"]):
            texts[choice["index"]] += choice["text"]
            ends[choice["index"]] = choice["finish_reason"] or ends[choice["index"]]
        (usage,) = (event["usage"] for event in events if event.get("usage"))
        return Answer(texts, ends, *openai_usage(usage))


class Responses:
    path = "/v1/responses"

    def body(self, prompt, tokens, seed, _extra):
        return {"input": prompt, "max_output_tokens": tokens, "seed": seed}

    def stream(self, body):
        return {**body, "stream": True}

    def whole(self, value):
        usage, text = value["usage"], value["output"][0]["content"][0]["text"] if value["output"] else ""
        return Answer(text, value["status"], usage["input_tokens"], usage["output_tokens"])

    def streamed(self, events):
        return self.whole(events[-1]["response"])


class Messages:
    path = "/v1/messages"

    def body(self, prompt, tokens, seed, _extra):
        return {"messages": chat(prompt), "max_tokens": tokens, "seed": seed, "temperature": 0.8}

    def stream(self, body):
        return {**body, "stream": True}

    def answer(self, text, finish, usage):
        cached = usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        return Answer(text, finish, usage["input_tokens"] + cached, usage["output_tokens"])

    def whole(self, value):
        text = "".join(block["text"] for block in value["content"])
        return self.answer(text, value["stop_reason"], value["usage"])

    def streamed(self, events):
        assert events[-1]["type"] == "message_stop", events[-1]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        (end,) = (event for event in events if event["type"] == "message_delta")
        text = "".join(delta["text"] for delta in deltas)
        return self.answer(text, end["delta"]["stop_reason"], end["usage"])


class OllamaChat:
    path = "/api/chat"

    def body(self, prompt, tokens, seed, _extra):
        return {"messages": chat(prompt), "options": {"num_predict": tokens, "seed": seed}, "stream": False}

    def stream(self, body):
        return {**body, "stream": True}

    def text(self, value):
        return value["message"]["content"]

    def whole(self, value):
        # A prompt of which everything is cached has no count in Ollama's format.
        return Answer(self.text(value), value["done_reason"], value["prompt_eval_count"], value["eval_count"])

    def streamed(self, events):
        whole = self.whole(events[-1])
        return dataclasses.replace(whole, text="".join(map(self.text, events)))


class OllamaGenerate(OllamaChat):
    path = "/api/generate"

    def body(self, prompt, tokens, seed, _extra):
        return {"prompt": prompt, "options": {"num_predict": tokens, "seed": seed}, "stream": False}

    def text(self, value):
        return value["response"]


class Generate:
    path = "/generate"

    def body(self, prompt, tokens, seed, _extra):
        return {"text": prompt, "sampling_params": {"max_new_tokens": tokens, "seed": seed}}

    def stream(self, body):
        return {**body, "stream": True}

    def whole(self, value):
        info = value["meta_info"]
        finish = info["finish_reason"]["type"]
        return Answer(value["text"], finish, info["prompt_tokens"], info["completion_tokens"])

    def streamed(self, events):
        return self.whole(events[-1])


class Embeddings:
    path = "/v1/embeddings"

    def body(self, prompt, _tokens, _seed, _extra):
        return {"input": [prompt, "a second text"], "encoding_format": "base64"}

    def stream(self, body):
        return body

    def whole(self, value):
        vectors = [item["embedding"] for item in value["data"]]
        return Answer(vectors, None, value["usage"]["prompt_tokens"], 0)


class Tokenize(Embeddings):
    path = "/tokenize"

    def body(self, prompt, _tokens, _seed, _extra):
        return {"prompt": prompt}

    def whole(self, value):
        return Answer(value["tokens"], None, 0, 0)


DIALECTS = [
    Chat(),
    Completions(),
    Responses(),
    Messages(),
    OllamaChat(),
    OllamaGenerate(),
    Generate(),
    Embeddings(),
    Tokenize(),
]


def can_stream(dialect):
    return hasattr(dialect, "streamed")


def read(dialect, response):
    """Returns the answer of a response, whole or streamed."""
    is_whole = response.headers.get("content-type", "").startswith("application/json")
    return dialect.whole(response.json()) if is_whole else dialect.streamed(response.events())
