"""Think blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.answers.think import without_think


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("plan...</think>\n\nAnswer", "Answer"),
        ("<THINK>p</THINK>Answer", "Answer"),
        ("<think>a</think>\n<think>b</think> x ", "x"),
        ("One <think>a</think>two", "One two"),
        ("<think>a <think> b</think>Answer", "Answer"),
        ("<think>a<think>b</think>c</think>Answer", "Answer"),
        ("<think>never ends", ""),
        ("  <think>never ends", ""),
        ("<think>a</think><think>never ends", ""),
        ("<think></think>", ""),
        ("</think>", ""),
    ],
)
def test_rsn_04_think_blocks_are_taken_off(text: str, outside: str) -> None:
    assert without_think(text) == outside


@pytest.mark.parametrize("text", ["", "Answer", "a < b", "The tag <think> opens a block.", "<thinking>x</thinking>", "<b>x</b>"])
def test_text_without_a_block_is_left_alone(text: str) -> None:
    assert without_think(text) is None


@given(st.text().filter(lambda text: "<" not in text), st.text().filter(lambda text: "<" not in text))
def test_what_follows_the_block_is_the_answer(thought: str, answer: str) -> None:
    assert without_think(f"<think>{thought}</think>{answer}") == answer.strip()
    assert without_think(f"{thought}</think>{answer}") == answer.strip()
