from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.framing import Lines, OpenPart


class Pieces:
    """Blocks that hold what they were given, in pieces of their own sizes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        block, self._data = self._data[:size], self._data[size:]
        return block


def framed(data: bytes, *, longest: int, block_bytes: int) -> list[bytes]:
    lines = Lines(Pieces(data), longest, block_bytes)
    found: list[bytes] = []
    while batch := lines.next():
        found += batch
    return found


LINES = st.lists(st.sampled_from([b"", b"a", b"\r", b"\n", b"\n\n", b"xyz\n", b'"', b"\xff", b"\xe2\x80\xa8"])).map(b"".join)


@given(LINES | st.binary(), st.integers(1, 9))
def test_lines_are_what_stands_between_newlines_whatever_the_blocks(data: bytes, block_bytes: int) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert framed(data, longest=10_000, block_bytes=block_bytes) == expected


@given(LINES | st.binary(), st.integers(1, 9), st.integers(1, 6))
def test_parts_of_long_lines_put_together_are_the_lines(data: bytes, block_bytes: int, longest: int) -> None:
    whole: list[bytes] = []
    held = b""
    for part in framed(data, longest=longest, block_bytes=block_bytes):
        assert type(part) is not OpenPart or longest < len(part) <= max(longest, block_bytes) + block_bytes
        held += part
        if type(part) is not OpenPart:
            whole.append(held)
            held = b""
    assert held == b""
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert whole == expected


def test_no_part_is_longer_than_the_limit_and_a_block() -> None:
    parts = framed(b"x" * 10_000 + b"\nshort", longest=100, block_bytes=64)
    assert max(map(len, parts)) <= 164
    assert parts[-1] == b"short"
