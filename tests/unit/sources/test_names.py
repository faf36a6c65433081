from __future__ import annotations

from headrace.sources.names import Names


def test_names_stand_in_the_order_in_which_they_were_met() -> None:
    names = Names()
    for fields in ({"b": 1, "a": 1}, {"a": 2, "b": 2}, {"a": 1}, {"c": 1, "b": 1}, {}):
        names.see(fields)
    names.add(["a", "d"])
    assert names.as_list() == ["b", "a", "c", "d"]


def test_input_with_ever_new_names_is_bounded_and_hides_no_clash() -> None:
    names = Names()
    for number in range(5_000):
        names.see({f"field {number}": 1, "x" * 1_000_000: 2})
    names.see({"answer_status": 1})
    assert len(names.as_list()) == 1_001
    assert names.as_list()[-1] == "answer_status"
