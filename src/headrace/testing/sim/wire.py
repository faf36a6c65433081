"""HTTP/1.1 as far as an inference endpoint needs it: frames requests from bytes, writes replies as bytes."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

MAX_HEAD = 65_536
MAX_BODY = 256_000_000
JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class WireError(ValueError):
    """The bytes are no request that is served; `status` says how to answer before closing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpRequest(NamedTuple):
    """One request. Header names are lower case; of equal ones the last stands."""

    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def keep_alive(self) -> bool:
        return self.headers.get(b"connection", b"").lower() != b"close"


class Parser:
    """Frames requests: `feed` it bytes, `take` requests while there are any. Linear in what was fed."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._head: tuple[str, str, str, dict[bytes, bytes]] | None = None
        self._length = 0  # of the body; -1: chunked
        self._chunks = bytearray()
        self.wants_continue = False

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Bytes that are held and not yet taken."""
        return len(self._buffer)

    def take(self) -> HttpRequest | None:
        """The next whole request, or None. Raises WireError, after which the connection is to be closed."""
        if self._head is None and not self._take_head():
            return None
        assert self._head is not None
        if self._length < 0:
            if not self._take_chunks():
                return None
            body = bytes(self._chunks)
            self._chunks = bytearray()
        else:
            if len(self._buffer) < self._length:
                return None
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
        request = HttpRequest(*self._head, body)
        self._head = None
        self.wants_continue = False
        return request

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end < 0:
            self._scanned = len(self._buffer)
            if self._scanned > MAX_HEAD:
                raise WireError(431, "the request's head is too large")
            return False
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        self._scanned = 0
        parts = lines[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            raise WireError(400, "not an HTTP/1 request")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if parts[2] == b"HTTP/1.0":
            headers.setdefault(b"connection", b"close")
        path, _, query = parts[1].decode("latin-1").partition("?")
        self._head = (parts[0].decode("latin-1"), path, query, headers)
        self._length = _body_length(headers)
        self.wants_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        return True

    def _take_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n", 0, 1024)
            if end < 0:
                if len(self._buffer) > 1024:
                    raise WireError(400, "a chunk's head is too long")
                return False
            try:
                size = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
            except ValueError:
                raise WireError(400, "a chunk's size is no number") from None
            if size < 0 or len(self._chunks) + size > MAX_BODY:
                raise WireError(413, "the body is too large")
            if len(self._buffer) < end + 2 + size + 2:
                return False
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 2 + size + 2]
            if size == 0:
                return True


def _body_length(headers: dict[bytes, bytes]) -> int:
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return -1
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise WireError(400, "content-length is no number")
    if len(length) > 12 or int(length) > MAX_BODY:
        raise WireError(413, "the body is too large")
    return int(length)


def response(status: int, body: bytes, content_type: str = JSON, headers: dict[str, str] | None = None) -> bytes:
    """A whole reply with its length. `headers` must hold no line ends; a content-type among them stands."""
    more = ""
    if headers:
        lowered = {name.lower(): value for name, value in headers.items()}
        content_type = lowered.pop("content-type", content_type)
        more = "".join(f"{name}: {value}\r\n" for name, value in lowered.items())
    reason = _REASONS.get(status, "Unknown")
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode("latin-1") + body
