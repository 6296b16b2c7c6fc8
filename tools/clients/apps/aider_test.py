"""aider: a question by litellm's Ollama provider and by OpenAI's API, as a program in a new repository."""

import sys
from pathlib import Path

from bench import Bench, ok

AIDER = Path(sys.executable).parent / "aider"
FLAGS = ["--no-git", "--yes-always", "--no-check-update", "--no-analytics", "--no-show-model-warnings",
         "--no-pretty", "--edit-format", "ask", "--map-tokens", "0", "--no-suggest-shell-commands", "--no-detect-urls"]

with Bench() as bench:
    for number, (model, path, env) in enumerate([
        ("ollama_chat/wf-demo", "/api/chat", {"OLLAMA_API_BASE": bench.url}),
        ("openai/wf-demo", "/v1/chat/completions", {"OPENAI_API_BASE": bench.base_url}),
    ]):
        history = bench.home / f"history{number}.md"
        bench.run(AIDER, *FLAGS, "--model", model, "--chat-history-file", history,
                  "--message", "What does this program do?", **env)
        request = bench.last(path)
        expected = bench.chat(request.json["messages"], max_tokens=2000)
        # Its history wraps lines.
        assert expected.strip() and " ".join(expected.split()) in " ".join(history.read_text().split()), expected
    bench.none_refused("/api/chat", "/v1/chat/completions", but=("/api/chat/api/show",))
ok("aider-chat")
