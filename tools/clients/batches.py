"""The `openai` package: files and batches, their owners, and servers that are killed while a batch runs."""

import collections
import io
import json
import signal
import sys
import tempfile
import time

import openai
from server import Server, until

REQUESTS = 200
KILLS = 5


def lines(count, max_tokens=16):
    for at in range(count):
        body = {"model": "wf-demo", "max_tokens": max_tokens, "seed": at,
                "messages": [{"role": "user", "content": f"Tell me a story about {at} cats"}]}
        yield {"custom_id": f"request-{at}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def staggered():
    """Requests that end one after the other, so that a kill hits some and not others."""
    for at, line in enumerate(lines(REQUESTS)):
        line["body"]["max_tokens"] = 4 + at % 29
        yield line


def upload(client, requests):
    text = "".join(json.dumps(line) + "\n" for line in requests)
    return client.files.create(file=("in.jsonl", io.BytesIO(text.encode())), purpose="batch")


def start(client, file, window="24h"):
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window=window, metadata={"name": "test"}
    )


def finished(client, batch):
    until(lambda: client.batches.retrieve(batch.id).status in ("completed", "failed", "cancelled", "expired"), 300)
    return client.batches.retrieve(batch.id)


def results(client, file_id):
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


def files(client):
    file = upload(client, lines(3))
    assert file.object == "file" and file.purpose == "batch" and file.filename == "in.jsonl" and file.bytes > 100
    assert client.files.retrieve(file.id) == file
    assert [json.loads(line) for line in client.files.content(file.id).text.splitlines()] == list(lines(3))
    others = [upload(client, lines(1)) for _ in range(3)]
    # Two pages, newest first.
    listed = [one.id for one in client.files.list(limit=2)]
    assert sorted(listed) == sorted([file.id, *(other.id for other in others)]), listed
    assert client.files.delete(file.id).deleted
    try:
        client.files.retrieve(file.id)
        raise AssertionError("a deleted file is there")
    except openai.NotFoundError:
        pass


def batch(client):
    wrong = {"custom_id": "wrong", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}}
    done = finished(client, start(client, upload(client, [*lines(4), wrong])))
    assert done.status == "completed" and done.metadata == {"name": "test"}, done
    counts = done.request_counts
    assert (counts.total, counts.completed, counts.failed) == (5, 4, 1), counts
    by_id = {line["custom_id"]: line for line in results(client, done.output_file_id)}
    for line in lines(4):
        alone = client.chat.completions.create(**line["body"]).choices[0].message.content
        body = by_id[line["custom_id"]]["response"]["body"]
        assert body["choices"][0]["message"]["content"] == alone, line
    (error,) = results(client, done.error_file_id)
    assert error["custom_id"] == "wrong" and error["response"]["status_code"] == 400, error
    assert [one.id for one in client.batches.list(limit=1)][0] == done.id


def cancel(client):
    running = start(client, upload(client, lines(500, 400)))
    assert client.batches.cancel(running.id).status in ("cancelling", "cancelled")
    assert finished(client, running).status == "cancelled"


def interactive_first(client):
    """A request does not wait behind a batch that keeps the server busy."""
    running = start(client, upload(client, lines(500, 400)))
    until(lambda: client.batches.retrieve(running.id).status == "in_progress")
    began = time.monotonic()
    client.chat.completions.create(model="wf-demo", messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    waited = time.monotonic() - began
    assert waited < 20, f"{waited:.1f} s for a short request beside a batch"
    client.batches.cancel(running.id)
    finished(client, running)


def killed(binary, folder):
    """Servers that are killed lose no request and repeat none."""
    key = {"env": {"WF_API_KEY": "one,two"}}
    flags = ["--files-dir", folder]
    started = None
    for kill in range(KILLS + 1):
        with Server(binary, *flags, **key) as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="one")
            if started is None:
                started = start(client, upload(client, staggered()))
            if kill < KILLS:
                before = client.batches.retrieve(started.id).request_counts.completed
                until(lambda: client.batches.retrieve(started.id).request_counts.completed > before, 60)
                server.stop(signal.SIGKILL)
                continue
            done = finished(client, started)
            assert done.status == "completed", done
            ids = collections.Counter(line["custom_id"] for line in results(client, done.output_file_id))
            assert ids == collections.Counter(line["custom_id"] for line in staggered()), ids
            other = openai.OpenAI(base_url=server.base_url, api_key="two")
            assert not list(other.files.list()) and not list(other.batches.list())
            for call in (other.batches.retrieve, other.batches.cancel):
                try:
                    call(done.id)
                    raise AssertionError("another key sees a batch")
                except openai.NotFoundError:
                    pass


def main(binary):
    with Server(binary) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
        try:
            client.files.list()
            raise AssertionError("files are on")
        except openai.NotFoundError as error:
            assert "--files-dir" in str(error), error
    with tempfile.TemporaryDirectory() as folder, Server(binary, "--files-dir", folder) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
        files(client)
        batch(client)
        cancel(client)
        interactive_first(client)
    with tempfile.TemporaryDirectory() as folder:
        killed(binary, folder)
    print(f"openai {openai.__version__}: files and batches, {KILLS} kills: all passed")


main(sys.argv[1])
