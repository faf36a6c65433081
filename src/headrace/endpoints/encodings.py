"""Bodies in the encodings that are asked for, unpacked up to a limit."""

from __future__ import annotations

import zlib

from headrace.endpoints.transport import Reason, TransportError, too_large
from headrace.values import Sent

_PACKED = frozenset({"gzip", "x-gzip", "deflate"})


def decoded(raw: bytes, named: str | None, limit: int) -> bytes:
    """The body as it was before its `content-encoding`; one in an encoding that was not asked for as it came.

    Raises TransportError: it is not what it says, ends early, or unpacks to more than `limit` bytes.
    """
    encoding = (named or "").strip().lower()
    if encoding not in _PACKED or not raw:
        return raw
    for window in (31,) if encoding != "deflate" else (15, -15):  # some servers send deflate without its zlib frame
        machine = zlib.decompressobj(window)
        try:
            content = machine.decompress(raw, limit + 1)
        except zlib.error:
            continue
        if len(content) > limit:
            raise too_large(limit)
        if not machine.eof:
            raise TransportError(Reason.SHORT_BODY, Sent.MAYBE, f"the reply's {encoding} body ends early")
        return content
    raise TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply's body cannot be decoded: it is no {encoding}")
