from __future__ import annotations

import builtins
import itertools
import re
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.slicing.texts import texts

from headrace.errors import SpecError
from headrace.slicing import Divider
from headrace.spec import SplitSpec


def divider(size: str, overlap: str | None = None, fields: set[str] | None = None) -> Divider:
    return Divider(SplitSpec(size=size, overlap=overlap), None if fields is None else frozenset(fields))


def pieces_of(text: str, size: str, overlap: str | None = None) -> list[str]:
    return [text[start:stop] for start, stop in divider(size, overlap).spans(text)]


def test_pieces_end_with_sentences_where_they_can() -> None:
    text = "First sentence. Second one is here. Third comes after it. And a fourth."
    assert pieces_of(text, "40 chars") == ["First sentence. Second one is here. ", "Third comes after it. And a fourth."]


def test_what_fits_is_not_divided() -> None:
    assert divider("10 chars")(3, {"text": "x" * 10, "n": 5}) == []


def test_only_fields_that_the_template_prints_are_divided() -> None:
    slices = divider("10 chars", fields={"text", "gone"})(0, {"text": "word " * 5, "other": "word " * 50})
    assert {part.field for part in slices} == {"text"}


def test_of_two_long_fields_each_piece_has_its_part_and_the_shorter_ends_first() -> None:
    fields = {"a": "aaaa " * 4, "b": "bbbb " * 8}
    slices = divider("10 chars")(0, fields)
    held = [(part.n, part.field, fields[part.field][part.start : part.stop]) for part in slices]
    assert [n for n, _, _ in held] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert "".join(text for _, field, text in held if field == "a") == fields["a"]
    assert "".join(text for _, field, text in held if field == "b") == fields["b"]
    assert held[-2] == (3, "a", "")


def test_an_overlap_stands_in_both_pieces() -> None:
    spans = list(divider("40 chars", "12 chars").spans("one two three four five six seven eight nine ten " * 8))
    shared = [before[1] - after[0] for before, after in itertools.pairwise(spans)]
    assert all(0 <= chars <= 12 for chars in shared)
    assert sum(shared) > 0


def test_the_white_space_between_pieces_is_known() -> None:
    text = "One two three.\n\nFour five six. Seven eight."
    assert [part.gap for part in divider("17 chars")(0, {"t": text})] == [3, 1, 0]


@pytest.mark.slow
@example("0\x80\x80\x80", 8, 0, "tokens")
@given(texts, st.integers(8, 200), st.integers(0, 2), st.sampled_from(["chars", "tokens"]))
def test_pieces_cover_the_text_in_order_and_none_is_too_long(text: str, size: int, half: int, unit: str) -> None:
    overlap = size * half // 4
    made = divider(f"{size} {unit}", f"{overlap} {unit}")
    spans = list(made.spans(text))
    end = 0
    for start, stop in spans:
        assert start <= end < stop
        assert made.size.of(text[end:stop]) <= size + 1
        end = stop
    assert end == len(text)
    if not overlap:
        assert "".join(text[start:stop] for start, stop in spans) == text


@pytest.mark.slow
@given(texts, st.integers(8, 60))
def test_no_piece_parts_what_is_shown_as_one_character(text: str, size: int) -> None:
    clusters = re.compile("\r\n|e\u0301|👩‍👩‍👧|🇩🇪|🇫🇷|\u1112\u1161\u11ab")
    starts = {start for start, _ in divider(f"{size} chars").spans(text)}
    assert not [found for found in clusters.finditer(text) if any(at in starts for at in range(found.start() + 1, found.end()))]


@pytest.mark.parametrize("white", ["\n", "\r\n", "\t\n", "\x0b\n "])
@pytest.mark.parametrize("overlap", [None, "15 tokens"])
def test_long_white_space_has_tokens_too(white: str, overlap: str | None) -> None:
    made = divider("50 tokens", overlap)
    text = "a word " + white * 3_000 + "and the rest"
    spans = list(made.spans(text))
    assert max(made.size.of(text[start:stop]) for start, stop in spans) <= 50
    assert not [start for start, _ in spans if text[start - 1 : start + 1] == "\r\n"]


def test_a_long_text_is_divided_as_a_short_part_of_it_is() -> None:
    text = "".join(f"Sentence number {n} says little. " for n in range(3000))
    spans = list(divider("300 chars").spans(text))
    assert spans[:20] == list(divider("300 chars").spans(text[:20_000]))[:20]
    assert "".join(text[start:stop] for start, stop in spans) == text


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "semantic_text_splitter", raising=False)
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "semantic_text_splitter":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SpecError, match=re.escape("pip install '.[split]'")) as caught:
        divider("100 chars")
    assert caught.value.key == "slice.split"
