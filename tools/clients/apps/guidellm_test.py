"""guidellm: six requests one after the other, without an error."""

import json
import sys
from pathlib import Path

from bench import Bench, ok

GUIDELLM = Path(sys.executable).parent / "guidellm"

with Bench() as bench:
    prompts = bench.home / "prompts.json"
    prompts.write_text(json.dumps([{"prompt": f"Tell me story {n}", "output_tokens_count": 8} for n in range(6)]))
    bench.run(
        GUIDELLM, "run", "--backend", f"kind=openai_http,target={bench.url},model=wf-demo",
        "--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=6",
        "--data", f"kind=json_file,path={prompts}", "--output", "kind=json,path=out.json", "--disable-console",
    )
    [benchmark] = json.loads((bench.home / "out.json").read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    assert totals["successful"] == 6 and totals["errored"] == 0, totals
    bench.none_refused("/v1/chat/completions")
ok("guidellm")
