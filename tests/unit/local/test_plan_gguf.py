"""A GGUF file as `headrace plan` reads it, also in several parts."""

from __future__ import annotations

import pytest

from headrace.errors import SpecError
from headrace.policy.attention import Heads
from headrace.runs.plan import describe_path


def test_a_file_tells_its_attention_and_the_bytes_of_its_tensors(gguf):
    described = describe_path(gguf("m.gguf", size=100))
    assert described.attention is not None
    assert described.attention.groups == (Heads(2, 1, 16, 16),)
    assert (described.context, described.weights, described.notes) == (2048, 400, ())


def test_parts_are_counted_together_whichever_is_named(gguf):
    first, second = (gguf(f"m-0000{part}-of-00002.gguf", size=100) for part in (1, 2))
    assert describe_path(first).weights == describe_path(second).weights == 800


def test_a_part_that_is_not_there_leaves_the_weights_unknown(gguf):
    described = describe_path(gguf("m-00001-of-00002.gguf"))
    assert described.attention is not None
    assert described.weights is None
    assert "m-00002-of-00002.gguf is not there" in described.notes[0]


def test_a_file_that_is_cut_is_refused(gguf):
    path = gguf("m.gguf")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SpecError, match=r"--model: .*cut short"):
        describe_path(path)
