"""The header of a GGUF file: what it says, and that nothing it claims is believed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import SpecError
from headrace.local.gguf import read_gguf, read_header, refuse_split


def test_a_text_model_tells_its_name_its_context_and_what_a_token_costs(gguf):
    read = read_gguf(gguf("m.gguf"))
    assert (read.architecture, read.name, read.licence, read.kind) == ("llama", "Tiny Model", "apache-2.0", "text")
    assert read.context_length == 2048
    assert read.kv_bytes_per_token == 2 * 2 * 1 * (16 + 16)  # two bytes; two layers; one head; keys and values of 16
    assert read.complete


def test_a_header_tells_numbers_texts_and_short_lists_of_numbers(gguf):
    changed = {"llama.attention.head_count_kv": [1, 0], "tokenizer.ggml.token_type": [1] * 10_001}
    header = read_header(gguf("m.gguf", size=100, **changed))
    assert header.fields["general.architecture"] == "llama"
    assert header.fields["llama.block_count"] == 2
    assert header.fields["llama.attention.head_count_kv"] == [1, 0]
    assert header.fields["tokenizer.ggml.tokens"] is None
    assert header.fields["tokenizer.ggml.token_type"] is None
    assert (header.complete, header.tensor_bytes) == (True, 400)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"general.architecture": "bert"}, "embedding"),
        ({"general.architecture": "nomic-bert-moe"}, "embedding"),
        ({"llama.pooling_type": 1}, "embedding"),
        ({"general.architecture": "clip"}, "other"),
        ({"general.type": "mmproj"}, "other"),
        ({"general.type": "adapter"}, "other"),
    ],
)
def test_what_writes_no_text_is_told_apart(gguf, changed, kind):
    assert read_gguf(gguf("m.gguf", **changed)).kind == kind


def test_a_projector_is_known_by_its_name_too(gguf):
    assert read_gguf(gguf("mmproj-model-f16.gguf")).kind == "other"


def test_a_file_that_ends_before_its_last_tensor_is_not_complete(gguf):
    path = gguf("m.gguf")
    path.write_bytes(path.read_bytes()[:-1])
    assert not read_gguf(path).complete


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04 a zip", "no GGUF file"),
        (b"<!DOCTYPE html><html>", "no GGUF file"),
        (b"GGUF", "damaged or cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1), "damaged or cut short"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "a GGUF file of version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "damaged or cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "damaged or cut short"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "damaged or cut short"),
    ],
)
def test_what_is_no_model_is_told_in_one_line(tmp_path: Path, content: bytes, told: str):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=told) as caught:
        read_gguf(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_is_told_in_one_line(tmp_path: Path):
    with pytest.raises(SpecError, match="there is no such file"):
        read_gguf(tmp_path / "m.gguf")
    with pytest.raises(SpecError, match="no file; give a model"):
        read_gguf(tmp_path)


def test_a_part_of_several_says_how_they_are_joined():
    refuse_split(Path("model.gguf"))
    refuse_split(Path("model-00001-of-00001.gguf"))
    with pytest.raises(SpecError, match=r"`llama-gguf-split --merge m-00001-of-00003.gguf m.gguf` and give m.gguf"):
        refuse_split(Path("m-00002-of-00003.gguf"))


@given(st.data())
@settings(deadline=None)
def test_a_header_cut_or_changed_anywhere_is_read_or_refused(tmp_path_factory, gguf_bytes, data):
    content = bytearray(gguf_bytes())
    end = data.draw(st.integers(0, len(content)))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(content[:end])
    try:
        read = read_gguf(path)
    except SpecError:
        return
    assert read.size == end
