from __future__ import annotations

from headrace.engine.made import LEAST_HELD, MOST_HELD, Made
from headrace.values import FIRST_MADE, Unit


def units(count: int, first: int = FIRST_MADE) -> list[Unit]:
    return [Unit(seq=first + n, hash=bytes(16), item=0, payload=b"x" * 10) for n in range(count)]


def taken(made: Made) -> list[int]:
    found = []
    while (unit := made.take()) is not None:
        found.append(unit.seq - FIRST_MADE)
    return found


def test_they_come_in_the_order_in_which_they_were_made() -> None:
    made = Made([], may_come=True)
    made.add(units(3))
    assert (len(made), made.ready, made.is_low) == (3, 3, False)
    assert taken(made) == [0, 1, 2]


def test_beyond_what_is_held_only_numbers_are_kept_and_recalled() -> None:
    made = Made([], may_come=True)
    made.add(units(MOST_HELD + 50))
    assert (len(made), made.ready) == (MOST_HELD + 50, MOST_HELD)
    found = taken(made)
    assert made.is_low
    while made.is_low:
        numbers = made.next_numbers()
        assert len(numbers) <= LEAST_HELD
        assert len(made) >= len(numbers)
        made.on_recalled([unit for unit in units(MOST_HELD + 50) if unit.seq in numbers])
        found += taken(made)
    assert found == list(range(MOST_HELD + 50))
    assert len(made) == 0


def test_what_was_pending_before_comes_first() -> None:
    made = Made([FIRST_MADE], may_come=True)
    made.add(units(1, FIRST_MADE + 1))
    assert (made.ready, made.is_low) == (0, True)
    assert made.next_numbers() == [FIRST_MADE, FIRST_MADE + 1]
    made.on_recalled(units(2))
    assert taken(made) == [0, 1]


def test_a_stop_leaves_nothing() -> None:
    made = Made([FIRST_MADE], may_come=True)
    made.add(units(2))
    made.clear()
    assert (len(made), made.take(), made.is_low) == (0, None, False)
