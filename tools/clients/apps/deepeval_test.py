"""deepeval: its local model, which judges would use."""

import os

from bench import STORY, Bench, ok

with Bench() as bench:
    # It reads and writes files in the current folder.
    os.chdir(bench.home)
    from deepeval.models import LocalModel

    model = LocalModel("wf-demo", api_key="none", base_url=bench.base_url, temperature=0,
                       generation_kwargs={"max_tokens": 24})
    text, _ = model.generate(STORY)
    assert text == bench.chat(), text
    bench.none_refused("/v1/chat/completions")
ok("deepeval")
