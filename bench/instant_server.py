"""An endpoint that answers at once: one fixed chat completion for any POST. `python -m bench.instant_server`.

Prints `READY http://127.0.0.1:PORT/v1` and serves until SIGTERM. GET /stats tells how many POSTs came, and when the first
of them and the last, by the machine's monotonic clock, which all processes share. `--latency-ms` holds answers back,
`--fail-once EVERY` refuses one in EVERY distinct bodies at once with a 503, the first time; after `--answers N` no POST is
answered any more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import zlib
from typing import cast

import uvloop

ANSWER = {"category": "games", "confidence": 0.9}
BODY = json.dumps(
    {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(ANSWER)}}
        ],
        "usage": {"prompt_tokens": 512, "completion_tokens": 16, "total_tokens": 528},
    }
).encode()  # fmt: skip
OVERLOADED = b'{"error":{"message":"overloaded","type":"server_error","code":503}}'


def http(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


REPLY = http("200 OK", BODY)
REFUSAL = http("503 Service Unavailable", OVERLOADED)


class Service:
    """What all connections share."""

    def __init__(self, latency_s: float = 0.0, fail_once: int = 0, answers: int = 0) -> None:
        self.latency_s = latency_s
        self.fail_once = fail_once
        self.answers = answers
        self.requests = 0
        self.refused = 0
        self.first: float | None = None
        self.last: float | None = None
        self._seen: set[int] = set()

    def reply(self, body: bytes) -> bytes | None:
        """What to answer; None: nothing, ever."""
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last
        self.requests += 1
        if self.answers and self.requests > self.answers:
            return None
        if self.fail_once:
            mark = zlib.crc32(body)
            if mark % self.fail_once == 0 and mark not in self._seen:
                self._seen.add(mark)
                self.refused += 1
                return REFUSAL
        return REPLY

    def stats(self) -> bytes:
        counts = {"requests": self.requests, "refused": self.refused, "first": self.first, "last": self.last}
        return http("200 OK", json.dumps(counts).encode())

    def reset(self) -> None:
        self.requests = self.refused = 0
        self.first = self.last = None
        self._seen.clear()


class Connection(asyncio.Protocol):
    """Just enough HTTP/1.1: keep-alive, bodies with a content-length."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's inherits from none of asyncio's

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while True:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                break
            head = buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            stop = end + 4 + length
            if len(buffer) < stop:
                break
            self._answer(head, buffer[end + 4 : stop])
            buffer = buffer[stop:]
        self._buffer = buffer

    def _answer(self, head: bytes, body: bytes) -> None:
        service, transport = self._service, self._transport
        assert transport is not None
        if head.startswith(b"get /stats/reset"):
            service.reset()
            transport.write(service.stats())
        elif head.startswith(b"get"):
            transport.write(service.stats())
        elif (reply := service.reply(body)) is None:
            return
        elif service.latency_s and reply is REPLY:
            asyncio.get_running_loop().call_later(service.latency_s, self._write_late, reply)
        else:
            transport.write(reply)

    def _write_late(self, reply: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(reply)


async def serve(service: Service) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    print(f"READY http://127.0.0.1:{port}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--fail-once", type=int, default=0)
    parser.add_argument("--answers", type=int, default=0)
    options = parser.parse_args()
    uvloop.run(serve(Service(options.latency_ms / 1000, options.fail_once, options.answers)))


if __name__ == "__main__":
    main()
