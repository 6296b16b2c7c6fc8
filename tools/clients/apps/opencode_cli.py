"""opencode without a terminal: `opencode run`, with a provider of its configuration file."""

import json
import sys

from bench import Bench

OPENCODE = sys.argv[2]

with Bench() as bench:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "wf",
        "options": {"baseURL": bench.base_url, "apiKey": "none"},
        "models": {"wf-demo": {"name": "wf-demo", "limit": {"context": 131072, "output": 512}}},
    }
    config = {"provider": {"wf": provider}, "autoupdate": False, "share": "disabled", "small_model": "wf/wf-demo"}
    (bench.home / "opencode.json").write_text(json.dumps(config))
    out = bench.run(OPENCODE, "run", "-m", "wf/wf-demo", "--format", "json", "What does this program do?",
                    OPENCODE_CONFIG=str(bench.home / "opencode.json"), OPENCODE_DISABLE_MODELS_FETCH="1",
                    OPENCODE_DISABLE_AUTOUPDATE="1")
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    shown = "".join(event["part"]["text"] for event in events if event["type"] == "text")
    with_tools = [one for one in bench.requests if one.body and one.json.get("tools")]
    assert with_tools, bench.recorder
    sent = with_tools[-1].json
    sent.pop("stream_options", None)
    again = bench.post("/v1/chat/completions", {**sent, "stream": False})["choices"][0]["message"]["content"]
    assert again.strip() and shown.strip() == again.strip(), (shown, again)
    bench.none_refused("/v1/chat/completions")
print("opencode: ok")
