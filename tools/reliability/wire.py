"""A small HTTP/1.1 client over asyncio, which sees what a careless client library would hide."""

import asyncio
import dataclasses
import json
import socket
import struct


@dataclasses.dataclass
class Response:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)

    def events(self):
        """Returns the JSON values of a stream: of server-sent events, or of lines."""
        lines = self.body.decode().splitlines()
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line[6:] for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
        return [json.loads(line) for line in lines if line]


def head_of(method, path, host, body_len, headers):
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body_len is not None:
        lines += ["content-type: application/json", f"content-length: {body_len}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Connection:
    """One connection, opened on first use and again after the server or the caller has closed it."""

    def __init__(self, host, port, headers=None):
        self.host, self.port, self.headers = host, port, headers or {}
        self.socket, self.buffer = None, b""

    async def open(self):
        if self.socket is None:
            self.socket, self.buffer = socket.socket(), b""
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(self.socket, (self.host, self.port))

    def close(self, abort=False):
        if self.socket is not None:
            if abort:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()
        self.socket = None

    async def send(self, method, path, body=None, headers=None):
        await self.open()
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {**self.headers, **(headers or {})}
        size = None if body is None else len(body)
        data = head_of(method, path, self.host, size, headers) + (body or b"")
        try:
            await asyncio.get_running_loop().sock_sendall(self.socket, data)
        except ConnectionError:
            # The server may have answered and closed before it has read everything.
            pass

    async def read_some(self, size=1 << 16):
        """Returns what comes next, or nothing at the end."""
        if self.buffer:
            taken, self.buffer = self.buffer[:size], self.buffer[size:]
            return taken
        return await asyncio.get_running_loop().sock_recv(self.socket, size)

    async def fill(self):
        more = await asyncio.get_running_loop().sock_recv(self.socket, 1 << 16)
        if not more:
            raise EOFError("the server has closed the connection")
        self.buffer += more

    async def read_until(self, mark):
        while mark not in self.buffer:
            await self.fill()
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    async def read_exactly(self, size):
        while len(self.buffer) < size:
            await self.fill()
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    async def read_head(self):
        first, *fields = (await self.read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
        return int(first.split()[1]), headers

    async def read_body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        return await self.read_exactly(int(headers.get("content-length", 0)))

    async def chunks(self):
        while size := int(await self.read_until(b"\r\n"), 16):
            yield await self.read_exactly(size)
            await self.read_exactly(2)
        await self.read_exactly(2)

    async def read_response(self):
        status, headers = await self.read_head()
        while status < 200:
            status, headers = await self.read_head()
        response = Response(status, headers, await self.read_body(headers))
        if headers.get("connection") == "close":
            self.close()
        return response

    async def request(self, method, path, body=None, headers=None, seconds=120):
        """Sends a request and returns its response. A kept connection that was closed meanwhile is opened again."""
        was_open = self.socket is not None
        try:
            async with asyncio.timeout(seconds):
                await self.send(method, path, body, headers)
                return await self.read_response()
        except (ConnectionError, EOFError):
            self.close()
            if not was_open:
                raise
            return await self.request(method, path, body, headers, seconds)
        except BaseException:
            self.close(abort=True)
            raise


async def ask(server, method, path, body=None, headers=None, seconds=120):
    """Sends one request on a connection of its own."""
    connection = Connection(server.host, server.port)
    try:
        return await connection.request(method, path, body, headers, seconds)
    finally:
        connection.close()


async def metrics(server, headers=None):
    """Returns the samples of `/metrics` by name and labels."""
    text = (await ask(server, "GET", "/metrics", headers=headers)).body.decode()
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
