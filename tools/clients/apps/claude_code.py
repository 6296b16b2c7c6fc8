"""Claude Code without a terminal: `claude -p`, which streams messages with tools, thinking and a long system prompt."""

import json
import sys

from bench import Bench

CLAUDE = sys.argv[2]

with Bench() as bench:
    # All of its tools would be a prompt of thirty thousand tokens.
    out = bench.run(
        CLAUDE, "-p", "What does this program do?", "--model", "wf-demo", "--output-format", "json",
        "--tools", "Read,Grep",
        ANTHROPIC_BASE_URL=bench.url, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1",
    )
    result = json.loads(out)
    assert not result["is_error"] and result["num_turns"] == 1, result
    [request] = [one for one in bench.requests if one.path.startswith("/v1/messages?")]
    sent = request.json
    assert sent["thinking"] and sent["context_management"]["edits"] and sent["tools"] and sent["stream"], sent.keys()
    deltas = [event["delta"].get("text", "") for event in request.events() if event["type"] == "content_block_delta"]
    assert result["result"].strip() == "".join(deltas).strip() != "", result
    # Without a stream, the server gives the same text.
    again = bench.post(request.path, {**sent, "stream": False})
    assert [block["text"] for block in again["content"]] == ["".join(deltas)]
    bench.none_refused("/v1/messages")
print("claude-code: ok")
