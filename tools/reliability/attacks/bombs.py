"""Small requests that ask for much: grammars whose states multiply, and JSON that grows when it is read."""

import json

from attacks.arena import proper
from process import check

# Eight bodies of up to 4 MiB at once, of which two are parsed, and what the allocator keeps.
MAX_BODIES_KB = 128 << 10

# Number of each kind in the smallest share.
AT_LEAST = 16

COMPLETION = {"prompt": "x", "max_tokens": 4}
GRAMMARS = "/v1/completions"


def expressions():
    any_text = "(.|\\n)"
    for count in (20, 200, 2000):
        yield f"{any_text}*a{any_text}{{{count}}}"
        yield f"((a{{1,{count}}}){{1,{count}}}){{1,{count}}}"
        yield f"(a|b|ab){{{count}}}c"
        yield "|".join("a" * at for at in range(1, count))
        yield "(" * count + "a" + ")" * count
        yield "(" * count + "a" + "?)*" * count
        yield "[^a-z]" * count
        yield f"(\\p{{L}}|\\p{{N}}){{{count}}}"
    yield "(?=a)b"
    yield "(a)\\1"
    yield "a{99999999999}"
    yield "\\u{110000}"


def lark():
    state = "start: T\nT: /(.|\\n)*a(.|\\n){%d}/ & ~/(.|\\n)*b(.|\\n){%d}/"
    for count in (5, 10, 20, 40, 200):
        yield state % (count, count + 1)
        yield "start: " + " ".join(f"r{at}" for at in range(count)) + "".join(
            f"\nr{at}: r{(at + 1) % count} | \"x\"" for at in range(count)
        )
        patterns = {f"p{at}": {"type": "string", "pattern": f"(a|b)*{'c' * at}"} for at in range(count)}
        yield "start: %json " + json.dumps({"type": "object", "properties": patterns})
        both = {"allOf": [{"type": "string", "pattern": f".*{at}.{{{at}}}"} for at in range(count)]}
        yield "start: %json " + json.dumps(both)
        yield "root ::= " + "(" * count + '"a"' + ")*" * count
    yield "start: start start | \"a\""
    yield "start: A\nA: A \"x\" | \"y\""
    yield "start: /" + "a?" * 2000 + "/"


def schemas():
    for count in (10, 100, 1000):
        deep = {"type": "string"}
        for _ in range(count):
            deep = {"type": "array", "items": deep}
        yield deep
        yield {"enum": [f"value {at}" for at in range(count * 10)]}
        yield {"anyOf": [{"const": at} for at in range(count)]}
        yield {"type": "string", "minLength": count * 10, "maxLength": count * 20}
        yield {"type": "array", "minItems": count * 10, "items": {"type": "integer"}}
        yield {"type": "object", "properties": {f"p{at}": {"type": "number"} for at in range(count)}}
        yield {"allOf": [{"type": "string", "pattern": f"^.*{at}.{{20}}$"} for at in range(count)]}
        yield {"type": "integer", "minimum": -(10**count), "maximum": 10**count}
        yield {"type": "number", "multipleOf": 10.0**-min(count, 300)}
    yield {"$ref": "#"}
    yield {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    yield {"$ref": "http://127.0.0.1:1/schema.json"}


def grammar_requests():
    for field, sources in (("regex", expressions()), ("grammar", lark()), ("json_schema", schemas())):
        for source in sources:
            yield "POST", GRAMMARS, {**COMPLETION, field: source}


def bodies_with_large_fields():
    """Bodies whose fields are read, and have far more values than any use of them."""
    count = 1_000_000
    numbers = b"[" + b",".join([b"1"] * count) + b"]"
    texts = b"[" + b",".join([b'""'] * count) + b"]"
    objects = b"[" + b",".join([b"{}"] * count) + b"]"
    fields = b"[" + b",".join([b'{"a":0}'] * 30_000) + b"]"
    biases = b"{" + b",".join(b'"%d":1' % at for at in range(60_000)) + b"}"
    inner = json.dumps(numbers.decode()).encode()
    nested = b'{"enum":' * 60 + numbers[: 1 << 20] + b"1]" + b"}" * 60
    for name in (b"stop", b"stop_token_ids", b"logit_bias", b"tools", b"messages", b"temperature", b"unknown", b"prompt"):
        for value in (numbers, texts, objects, fields, biases):
            yield b'{"prompt": "x", "max_tokens": 1, "%b": %b}' % (name, value)
    for name in (b"json_schema", b"guided_choice", b"regex", b"response_format", b"structured_outputs"):
        for value in (numbers, fields, biases, nested, inner):
            yield b'{"prompt": "x", "max_tokens": 1, "%b": %b}' % (name, value)


def bodies_of_other_routes():
    """The same for fields that other routes have."""
    numbers = b"[" + b",".join([b"1"] * 1_000_000) + b"]"
    parts = b"[" + b",".join([b'{"type":"text"}'] * 20_000) + b"]"
    calls = b'[{"function":{"name":"f","arguments":%b}}]' % json.dumps("[" + "0," * 900_000 + "0]").encode()
    for value in (numbers, parts):
        for path, field in (
            ("/v1/embeddings", b"input"), ("/v1/responses", b"input"), ("/api/embed", b"input"),
            ("/generate", b"input_ids"), ("/detokenize", b"tokens"), ("/v1/messages", b"system"),
            ("/v1/messages", b"stop_sequences"), ("/api/chat", b"options"), ("/v1/chat/completions", b"messages"),
        ):
            yield "POST", path, b'{"%b": %b}' % (field, value)
        message = b'{"messages": [{"role": "user", "content": %b}], "max_tokens": 1}' % value
        yield "POST", "/v1/chat/completions", message
        yield "POST", "/v1/messages", message
    for path in ("/v1/chat/completions", "/apply-template", "/tokenize"):
        yield "POST", path, b'{"messages": [{"role": "assistant", "content": "", "tool_calls": %b}]}' % calls


def json_bodies():
    start = b'{"prompt": "x", "max_tokens": 1, "metadata": '
    for count in (1000, 100_000, 590_000):
        yield start + b"[" + b",".join([b'{"":0}'] * count) + b"]}"
        yield start + b"[" * count + b"]" * count + b"}"
        yield start + b'{"a":' * count + b"1" + b"}" * count + b"}"
        yield start + b"{" + b",".join(b'"%d":0' % at for at in range(count)) + b"}}"
        yield start + b"[" + b",".join([b"0"] * count) + b"]}"
        yield start + b"1" * count + b"}"
        yield start + b"1e" + b"9" * count + b"}"
        yield start + b'"' + b"\\u0041" * count + b'"}'
    yield start + b'"' + b"a" * (5 << 20) + b'"}'
    yield from bodies_with_large_fields()
    for body in (
        b"", b"{", b"nul", b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0", b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}',
        b'{"prompt": "a", "prompt": "b"}', b"{} {}", b'{"max_tokens": NaN}', b"[]", b"null", b"1", b'"x"', b"\0" * 999,
        b'{"prompt": "x", "max_tokens": 1,}', b'{"prompt": "x" /* note */}',
    ):
        yield body


async def run(arena):
    def refused_or_short(response, request):
        proper(response, request)
        check(response.status in (200, 400, 413, 429), f"{response.status}: {str(request)[:200]}")

    grammars = arena.sample(grammar_requests(), AT_LEAST)
    statuses = await arena.attack(grammars, connections=8, judge=refused_or_short)
    await arena.check_health()
    all_bodies = [*(("POST", GRAMMARS, body) for body in json_bodies()), *bodies_of_other_routes()]
    bodies = arena.sample(all_bodies, AT_LEAST)
    before_kb = arena.server.usage()[0]
    all_peak_kb, arena.peak_kb = arena.peak_kb, before_kb
    of_bodies = await arena.attack(bodies, connections=8, judge=refused_or_short)
    growth, arena.peak_kb = arena.peak_kb - before_kb, max(arena.peak_kb, all_peak_kb)
    check(growth <= MAX_BODIES_KB, f"memory grew by {growth} kB for JSON bodies")
    return (
        f"{len(grammars)} grammars: {statuses}; {len(bodies)} JSON bodies: {of_bodies}, at most {growth >> 10} MiB more"
    )
