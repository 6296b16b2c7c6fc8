"""Values of every kind for every field of every route, as the server's own OpenAPI document lists them."""

import copy
import json

from wire import ask

MAX_DEPTH = 4
CHAT = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
# A valid body for each route that reads one.
VALID = {
    "/v1/chat/completions": {"messages": CHAT, "max_tokens": 2},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 2},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 2},
    "/v1/messages": {"messages": CHAT, "max_tokens": 2},
    "/v1/messages/count_tokens": {"messages": CHAT},
    "/v1/embeddings": {"input": "Hello"},
    # Without its file: a batch would compute beside the next attacks.
    "/v1/batches": {"input_file_id": "file-0", "endpoint": "/v1/completions", "completion_window": "24h"},
    "/api/chat": {"messages": CHAT, "options": {"num_predict": 2}},
    "/api/generate": {"prompt": "Hello", "options": {"num_predict": 2}},
    "/api/embed": {"input": "Hello"},
    "/api/embeddings": {"prompt": "Hello"},
    "/api/show": {},
    "/api/pull": {"model": "wf-demo"},
    "/apply-template": {"messages": CHAT},
    "/generate": {"text": "Hello", "sampling_params": {"max_new_tokens": 2}},
    "/tokenize": {"prompt": "Hello"},
    "/detokenize": {"tokens": [1]},
}


def nested(levels, inner):
    return inner if levels == 0 else [nested(levels - 1, inner)]


NUMBERS = [0, -1, 1, 2, 255, 2**31, -(2**31) - 1, 2**53, 2**63, -(2**63), 2**64, 10**30]
FLOATS = [0.5, -0.0, 1e-45, 1e38, 1e308, -1e308, 0.1 + 0.2]
TEXTS = [
    "", "a", " ", "\0", "\ud800", "\U0001f4a5", "é" * 300, "x" * 10_000, "../../etc/passwd", "{{ 1/0 }}",
    "<|endoftext|>", "%s%n", "auto", "none", "json_object", "true", "1", "(a*)*b", "\r\nx: y",
]
LISTS = [[], [None], [1], ["a"], [[]], [{}], [-1], [2**64], ["a"] * 300, [[1, 2], [3]], nested(100, 1), [True]]
OBJECTS = [{}, {"a": 1}, {"type": "text"}, {"type": None}, {"": ""}, {"a": {"b": {"c": []}}}, {"$ref": "#"}]
VALUES = [None, True, False, *NUMBERS, *FLOATS, *TEXTS, *LISTS, *OBJECTS, [TOOL], CHAT]


class Document:
    def __init__(self, document):
        self.document = document

    def properties(self, schema):
        """Returns the fields of a schema: of all its parts and alternatives."""
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].split("/")[-1]]
        found = dict(schema.get("properties", {}))
        for part in [*schema.get("allOf", []), *schema.get("oneOf", []), *schema.get("anyOf", [])]:
            found |= self.properties(part)
        items = self.properties(schema["items"]) if isinstance(schema.get("items"), dict) else {}
        return found | {(0, name): field for name, field in items.items()}

    def paths(self, schema, depth=0):
        """Returns the path of every field, such as `("messages", 0, "content")`."""
        if depth == MAX_DEPTH:
            return
        for name, field in self.properties(schema).items():
            path = name if isinstance(name, tuple) else (name,)
            yield path
            for rest in self.paths(field, depth + 1):
                yield path + rest

    def bodies(self):
        """Returns (route, schema of its body)."""
        for route, methods in self.document["paths"].items():
            content = methods.get("post", {}).get("requestBody", {}).get("content", {})
            if "application/json" in content:
                yield route, content["application/json"]["schema"]


def with_value(body, path, value):
    """Returns a copy of a body with a value at a path, whose parents are created."""
    *parents, last = path
    body = at = copy.deepcopy(body)
    for name, following in zip(parents, path[1:]):
        empty = [{}] if following == 0 else {}
        if isinstance(at, dict) and not isinstance(at.get(name), type(empty)):
            at[name] = empty
        at = at[name]
    at[last] = value
    return body


async def run(arena):
    document = Document((await ask(arena.server, "GET", "/openapi.json")).json())
    bodies = dict(document.bodies())
    assert bodies.keys() == VALID.keys(), f"routes without a valid body: {bodies.keys() ^ VALID.keys()}"
    fields = {(route, path) for route, schema in bodies.items() for path in document.paths(schema)}
    requests = [
        ("POST", route, json.dumps(with_value(VALID[route], path, value)).encode())
        for route, path in sorted(fields, key=str)
        for value in VALUES
    ]
    requests += [("POST", route, json.dumps(value).encode()) for route in VALID for value in VALUES]
    sent = arena.sample(requests)
    statuses = await arena.attack(sent)
    return f"{len(sent)} bodies of {len(fields)} fields: {statuses}"
