"""Codex without a terminal: `codex exec`, which streams responses with tools of several types."""

import json
import sys

from bench import Bench

CODEX = sys.argv[2]

with Bench() as bench:
    provider = f'{{name="wf", base_url="{bench.base_url}", wire_api="responses"}}'
    out = bench.run(
        CODEX, "exec", "--skip-git-repo-check", "-m", "wf-demo", "-c", "model_provider=wf",
        "-c", f"model_providers.wf={provider}", "--json", "What does this program do?",
    )
    events = [json.loads(line) for line in out.splitlines()]
    messages = [event["item"]["text"] for event in events
                if event["type"] == "item.completed" and event["item"]["type"] == "agent_message"]
    [request] = [one for one in bench.requests if one.path == "/v1/responses"]
    sent = request.json
    assert sent["include"] == ["reasoning.encrypted_content"] and sent["client_metadata"] and sent["tools"]
    again = bench.post("/v1/responses", {**sent, "stream": False})
    assert messages == [part["text"] for item in again["output"] for part in item["content"]] != [], messages
    assert events[-1]["type"] == "turn.completed", events[-1]
    assert events[-1]["usage"]["output_tokens"] == again["usage"]["output_tokens"]
    bench.none_refused("/v1/responses")
print("codex: ok")
