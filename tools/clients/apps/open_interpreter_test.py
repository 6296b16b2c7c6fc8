"""open-interpreter: a chat by litellm's Ollama provider and by OpenAI's API."""

from bench import STORY, Bench, ok
from interpreter import OpenInterpreter

with Bench() as bench:
    for model, base, path in [
        ("ollama_chat/wf-demo", bench.url, "/api/chat"),
        ("openai/wf-demo", bench.base_url, "/v1/chat/completions"),
    ]:
        program = OpenInterpreter(offline=True, disable_telemetry=True, auto_run=False)
        program.llm.model, program.llm.api_base, program.llm.api_key = model, base, "none"
        program.llm.context_window, program.llm.max_tokens, program.llm.temperature = 8192, 24, 0
        program.llm.supports_functions = False
        replies = program.chat(STORY, display=False, stream=False)
        shown = "".join(part["content"] for part in replies if part["role"] == "assistant")
        expected = bench.chat(bench.last(path).json["messages"])
        assert expected.strip() and shown.strip() == expected.strip(), (shown, expected)
    bench.none_refused("/api/chat", "/v1/chat/completions", but=("/api/chat/api/show",))
ok("open-interpreter")
