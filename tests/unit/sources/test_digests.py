from __future__ import annotations

from headrace.sources.digests import PER_CHUNK, RecordDigests, hold


def digests(count: int, start: int = 0, into: RecordDigests | None = None) -> RecordDigests:
    found = into or RecordDigests()
    for number in range(start, count):
        found.add(b"name", b"%d" % number)
    return found


def records(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"name", b"%d" % number) for number in range(count)]


def test_a_chunk_is_closed_after_so_many_records() -> None:
    assert digests(0).chunks() == []
    assert len(digests(1).chunks()) == 1
    assert len(digests(PER_CHUNK).chunks()) == 1
    assert len(digests(PER_CHUNK + 1).chunks()) == 2


def test_equal_records_hold_and_others_do_not() -> None:
    count = PER_CHUNK + 3
    stored = digests(count).chunks()
    assert hold(stored, count, iter(records(count + 5)))
    assert not hold(stored, count, records(count - 1))
    assert not hold(stored, count, [*records(count - 1), (b"name", b"other")])
    assert not hold(stored, count, [(b"other", b"0"), *records(count)[1:]])


def test_how_a_record_is_divided_counts() -> None:
    one, other = RecordDigests(), RecordDigests()
    one.add(b"ab", b"c")
    other.add(b"a", b"bc")
    assert one.chunks() != other.chunks()


def test_what_was_stored_is_gone_on_with_from_its_last_whole_chunk() -> None:
    whole = digests(PER_CHUNK + 10)
    again = RecordDigests()
    again.restore(whole.chunks(), whole.count)
    assert again.count == PER_CHUNK
    digests(PER_CHUNK + 10, PER_CHUNK, again)
    assert (again.chunks(), again.check()) == (whole.chunks(), whole.check())


def test_a_record_changes_every_later_check() -> None:
    one, other = digests(3), RecordDigests()
    other.add(b"other")
    digests(PER_CHUNK + 5, 1, other)
    digests(PER_CHUNK + 5, 3, one)
    assert one.count == other.count
    assert one.check() != other.check()
    assert one.chunks()[-1] != other.chunks()[-1]
