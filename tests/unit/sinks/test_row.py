"""Names that do not clash."""

from __future__ import annotations

from headrace.sinks.row import clash_free

OURS = ("answer", "answer_status", "answer_notes")


def test_free_names_are_kept() -> None:
    assert clash_free(["id", "text"], OURS) == {name: name for name in OURS}


def test_the_inputs_name_stays_and_ours_gets_underscores_until_it_is_free() -> None:
    found = clash_free(["answer", "answer_", "answer_notes"], OURS)
    assert found == {"answer": "answer__", "answer_status": "answer_status", "answer_notes": "answer_notes_"}
    assert list(found) == list(OURS)


def test_two_of_ours_never_meet() -> None:
    assert clash_free(["answer"], ["answer", "answer_"]) == {"answer": "answer_", "answer_": "answer__"}
