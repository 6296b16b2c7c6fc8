"""Connections that are slow, unfinished or not HTTP. Each is answered in JSON or closed, while others are served."""

import asyncio
import json
import time

from process import check
from wire import ask

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
BODY = b'{"prompt": "x", "max_tokens": 1}'
WHOLE = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
# A head has 10 s, a kilobyte of a body 10 s.
CLOSED_SECONDS = 25
# Others are served while the connections are open.
HEALTH_SECONDS = 2

ODD = {
    "nothing": b"",
    "part of a method": b"PO",
    "part of a head": HEAD,
    "no body": HEAD + b"content-length: 32\r\n\r\n",
    "part of a body": HEAD + b"content-length: 3200\r\n\r\n" + BODY,
    "TLS": bytes.fromhex("160301020001") + b"\0" * 300,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n\r\n",
    "zeros": b"\0" * 5000,
    "line breaks": b"\r\n" * 5000,
    "a long method": b"A" * 70_000,
    "a long target": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    "a long field": GET + b"x: " + b"a" * 2_000_000 + b"\r\n\r\n",
    "many fields": GET + b"".join(b"x%d: y\r\n" % at for at in range(20_000)) + b"\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"host: evil.example\r\n\r\n",
    "another host": b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "a space before the colon": GET + b"x : y\r\n\r\n",
    "a folded field": GET + b"x: y\r\n z\r\n\r\n",
    "a zero in a field": GET + b"x: \0\r\n\r\n",
    "a field in Latin-1": GET + b"x: \xe9\r\n\r\n",
    "a bad target": b"GET /v1/models/%ff HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a target with dots": b"GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "an absolute target": b"GET http://evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n",
    "TRACE": b"TRACE / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "two lengths": HEAD + b"content-length: 3\r\ncontent-length: 32\r\n\r\n" + BODY,
    "a negative length": HEAD + b"content-length: -1\r\n\r\n" + BODY,
    "a huge length": HEAD + b"content-length: 99999999999999999999\r\n\r\n" + BODY,
    "a length beyond the limit": HEAD + b"content-length: 9999999999\r\n\r\n" + BODY,
    "length and chunks": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET + b"\r\n",
    "bad chunks": HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "a huge chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "endless chunk sizes": HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"0" * 100_000,
    "an unknown encoding": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a compressed body": HEAD + b"content-encoding: gzip\r\ncontent-length: 32\r\n\r\n" + BODY,
    "an upgrade": GET + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "an expectation": HEAD + b"expect: 200-ok\r\ncontent-length: 32\r\n\r\n" + BODY,
    "another type": WHOLE.replace(b"application/json", b"text/plain"),
    "a hundred requests": WHOLE * 100,
}


async def read_all(reader):
    """Reads until the server closes, or nothing comes any more."""
    text = b""
    try:
        while more := await asyncio.wait_for(reader.read(1 << 16), CLOSED_SECONDS):
            text += more
    except (TimeoutError, OSError):
        pass
    return text


def check_answer(name, text):
    """A response is JSON with a request id, unless it is of a route that is not."""
    if not text:
        return
    head, _, body = text.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    status = int(lines[0].split()[1])
    check(status < 500 or status in (501, 505), f"{name}: {lines[0]}")
    check(any(line.startswith("x-request-id:") for line in lines), f"{name}: no request id: {head}")
    if status >= 400 and not any(line.startswith("transfer-encoding") for line in lines):
        length = next((int(line[16:]) for line in lines if line.startswith("content-length:")), 0)
        check("error" in json.loads(body[:length]), f"{name}: {text[:300]}")


async def send_odd(server, name, data, ends):
    """Sends bytes and, if it `ends`, closes its half of the connection."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    started = time.monotonic()
    try:
        writer.write(data)
        await asyncio.wait_for(writer.drain(), CLOSED_SECONDS)
        if ends:
            writer.write_eof()
    except (OSError, TimeoutError):
        # The server has closed already.
        pass
    text = await read_all(reader)
    writer.transport.abort()
    check_answer(name, text)
    return time.monotonic() - started


async def send_slowly(server, seconds_per_byte, data):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds_per_byte)
    except OSError:
        pass
    text = await read_all(reader)
    writer.transport.abort()
    check_answer("slow", text)


async def stop_reading(server, rng):
    """Asks for a stream, and reads none of it for a while."""
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 10)
    body = json.dumps({"prompt": "x", "max_tokens": 100, "stream": True, "ignore_eos": True}).encode()
    writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
    await asyncio.sleep(rng.random() * 10)
    writer.transport.abort()


async def watch_health(server, waits):
    while True:
        started = time.monotonic()
        await ask(server, "GET", "/health", seconds=30)
        waits.append(time.monotonic() - started)
        await asyncio.sleep(0.2)


async def run(arena):
    server, waits = arena.server, []
    odd = arena.sample((name, data, ends) for name, data in ODD.items() for ends in (False, True))
    slow = [(arena.rng.random() * 0.2, data) for data in arena.sample([WHOLE, GET + b"\r\n", HEAD] * 16)]
    idle = arena.sample(range(200))
    watch = asyncio.create_task(watch_health(server, waits))
    await asyncio.gather(
        *(send_odd(server, *case) for case in odd),
        *(send_slowly(server, *case) for case in slow),
        *(stop_reading(server, arena.rng) for _ in idle),
    )
    watch.cancel()
    check(max(waits) < HEALTH_SECONDS, f"/health took {max(waits):.1f} s beside odd connections")
    connections = len(odd) + len(slow) + len(idle)
    return f"{connections} connections; /health within {1000 * max(waits):.0f} ms beside them"
