"""gptme: a message of a script, with a provider that its configuration names."""

import sys
from pathlib import Path

from bench import STORY, Bench, ok

GPTME = Path(sys.executable).parent / "gptme"

with Bench() as bench:
    shown = bench.run(GPTME, "--non-interactive", "--no-confirm", "-m", "local/wf-demo", "--tools", "none", STORY,
                      OPENAI_BASE_URL=bench.base_url)
    # It samples, so that the text is another one each time.
    first = [one for one in bench.requests if one.path == "/v1/chat/completions"][0]
    parts = [choice["delta"].get("content") or "" for event in first.events() for choice in event["choices"]]
    sent = " ".join("".join(parts).split())
    assert len(parts) > 5 and sent and sent in " ".join(shown.split()), (sent, shown)
    bench.none_refused("/v1/chat/completions")
ok("gptme")
