"""promptfoo: an evaluation with two providers, whose texts have to be the server's."""

import json
import sys

from bench import STORY, Bench

PROMPTFOO = sys.argv[2]

with Bench() as bench:
    settings = {"apiBaseUrl": bench.base_url, "apiKey": "none", "temperature": 0, "max_tokens": 24}
    config = {
        "prompts": ["{{text}}"],
        "providers": [
            {"id": "openai:chat:wf-demo", "config": settings},
            {"id": "ollama:chat:wf-demo", "config": {"temperature": 0, "num_predict": 24}},
        ],
        "tests": [{"vars": {"text": STORY}, "assert": [{"type": "equals", "value": bench.chat()}]}],
    }
    (bench.home / "config.json").write_text(json.dumps(config))
    bench.run(
        PROMPTFOO, "eval", "-c", "config.json", "--no-cache", "--no-progress-bar", "-o", "out.json",
        PROMPTFOO_DISABLE_TELEMETRY="1", PROMPTFOO_DISABLE_UPDATE="1", OLLAMA_BASE_URL=bench.url,
        PROMPTFOO_CONFIG_DIR=str(bench.home / "promptfoo"),
    )
    stats = json.loads((bench.home / "out.json").read_text())["results"]["stats"]
    assert stats["successes"] == 2 and stats["failures"] == stats["errors"] == 0, stats
    bench.none_refused("/v1/chat/completions", "/api/chat")
print("promptfoo: ok")
