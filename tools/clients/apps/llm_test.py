"""llm (of Simon Willison): a model of its configuration file, as a program."""

import sys
from pathlib import Path

from bench import STORY, Bench, ok

LLM = Path(sys.executable).parent / "llm"

with Bench() as bench:
    (bench.home / "extra-openai-models.yaml").write_text(
        f"- model_id: wf\n  model_name: wf-demo\n  api_base: {bench.base_url}\n"
    )
    for flag in ([], ["--no-stream"]):
        shown = bench.run(LLM, "-m", "wf", *flag, "-o", "max_tokens", "24", "-o", "temperature", "0", STORY,
                          LLM_USER_PATH=str(bench.home))
        assert shown.strip() == bench.chat().strip(), shown
    bench.none_refused("/v1/chat/completions")
ok("llm")
