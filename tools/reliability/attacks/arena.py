"""What an attacked server has to do: answer in JSON, in time, within bounds of memory, and go on as before."""

import asyncio
import json
import time

from process import check
from questions import answers
from wire import Connection, ask, metrics

# Above what the model and its cache take. Four grammars may compile at once, and each may use 64 MiB.
MAX_GROWTH_KB = 512 << 10
MAX_SECONDS = 40


class Arena:
    def __init__(self, binary, server, rng, share):
        self.binary, self.server, self.rng, self.share = binary, server, rng, share
        self.slowest = 0
        self.peak_kb = self.start_kb = server.usage()[0]

    async def prepare(self):
        self.expected = await answers(self.server)

    def sample(self, items, at_least=1):
        """Returns the share of the items that this run uses."""
        items = list(items)
        count = min(len(items), max(at_least, round(len(items) * self.share)))
        return items if count == len(items) else self.rng.sample(items, count)

    async def attack(self, requests, connections=16, judge=None):
        """Sends requests (method, path, body) over some connections. Returns how many got each status."""
        queue, statuses = list(requests), {}

        async def work():
            connection = Connection(self.server.host, self.server.port)
            while queue:
                request = queue.pop()
                started = time.monotonic()
                try:
                    response = await connection.request(*request, seconds=MAX_SECONDS)
                except (TimeoutError, OSError, EOFError) as error:
                    check(False, f"{shown(request)}: {error!r} after {time.monotonic() - started:.1f} s")
                self.slowest = max(self.slowest, time.monotonic() - started)
                (judge or proper)(response, request)
                statuses[response.status] = statuses.get(response.status, 0) + 1
            connection.close()

        watch = asyncio.create_task(self.watch_memory())
        try:
            await asyncio.gather(*(work() for _ in range(connections)))
        finally:
            watch.cancel()
        return dict(sorted(statuses.items()))

    async def watch_memory(self):
        while True:
            self.peak_kb = max(self.peak_kb, self.server.usage()[0])
            await asyncio.sleep(0.1)

    async def check_health(self):
        check(self.server.is_alive(), f"the server is gone: {self.server.error_text()[-2000:]}")
        check((await ask(self.server, "GET", "/health")).status == 200, "/health is not 200")
        check(await answers(self.server) == self.expected, "the answers have changed")
        counts = await metrics(self.server)
        for name in ("wf:panics_total", "wf:failed_steps_total"):
            check(counts[name] == 0, f"{name} is {counts[name]}: {self.server.error_text()[-2000:]}")
        growth = self.peak_kb - self.start_kb
        check(growth <= MAX_GROWTH_KB, f"memory grew by {growth} kB")


def shown(request):
    text = str(request)
    return text if len(text) < 400 else f"{text[:400]}… ({len(text)} characters)"


def proper(response, request):
    """Every response has a request id and a JSON body, and no request is a server's fault."""
    where = f"{shown(request)}: {response.status} {response.body[:300]}"
    check(response.status < 500 or response.status == 503, where)
    check("x-request-id" in response.headers, f"no request id: {where}")
    kind = response.headers.get("content-type", "")
    if response.status >= 400:
        check(kind.startswith("application/json"), f"{kind}: {where}")
        check("error" in json.loads(response.body), where)
    elif kind.startswith("application/json"):
        json.loads(response.body)
    elif kind.startswith(("text/event-stream", "application/x-ndjson")):
        response.events()
