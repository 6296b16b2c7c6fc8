"""aiperf: eight requests of its own prompts, two at a time, counted by the server."""

import json
import sys
from pathlib import Path

from bench import Bench, ok
import long_context

AIPERF = Path(sys.executable).parent / "aiperf"

with Bench() as bench:
    # The tokenizer of the model as a folder of Hugging Face: other ones would be downloaded.
    bench.run(sys.argv[1], "convert", long_context.DEMO, "tokenizer")
    prompts = bench.home / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": f"Tell me story {n}"}) + "\n" for n in range(8)))
    bench.run(
        AIPERF, "profile", "-m", "wf-demo", "--url", bench.url, "--endpoint-type", "chat", "--streaming",
        "--input-file", prompts, "--custom-dataset-type", "single_turn", "--request-count", "8", "--concurrency", "2",
        "--use-server-token-count", "--tokenizer", bench.home / "tokenizer", "--extra-inputs", "max_tokens:8",
        "--artifact-dir", "out", "--ui", "none", HF_HUB_OFFLINE="",
    )
    [report] = bench.home.glob("out/**/profile_export_aiperf.json")
    found = json.loads(report.read_text())
    assert found["request_count"]["avg"] == 8, found["request_count"]
    assert found["output_sequence_length"]["avg"] == 8, found["output_sequence_length"]
    bench.none_refused("/v1/chat/completions")
ok("aiperf")
