"""How many bytes weights are, by what lies beside config.json; damaged files are refused in one line."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SpecError
from headrace.models.folder import read_folder
from headrace.models.jsonfile import read_object
from headrace.models.safetensors import read_header, read_weights

CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}


def tensors(**sizes: tuple[str, int]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, size) in sizes.items():
        header[name] = {"dtype": dtype, "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def put(folder: Path, name: str, content: bytes | dict[str, Any]) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_a_header_tells_bytes_by_type(tmp_path: Path):
    path = put(tmp_path, "model.safetensors", tensors(a=("BF16", 64), b=("F32", 16), c=("BF16", 8)))
    assert read_header(path) == {"BF16": 72, "F32": 16}


def test_the_index_tells_the_whole(tmp_path: Path):
    put(tmp_path, "model.safetensors.index.json", {"metadata": {"total_size": 16_060_522_496}})
    put(tmp_path, "model-00001-of-00004.safetensors", tensors(a=("BF16", 64)))
    assert read_weights(tmp_path).total == 16_060_522_496


@pytest.mark.parametrize("total", [None, "x", 0, -1, True, 1.5, 10**30, []])
def test_an_index_that_tells_nothing_is_passed_over(tmp_path: Path, total: Any):
    put(tmp_path, "model.safetensors.index.json", {"metadata": {"total_size": total}})
    put(tmp_path, "model.safetensors", tensors(a=("BF16", 64)))
    assert read_weights(tmp_path).total == 64
    put(tmp_path, "pytorch_model.bin.index.json", {"metadata": {"total_size": 500.0}})
    assert read_weights(tmp_path).total == 500


def test_the_same_weights_under_another_name_are_counted_once(tmp_path: Path):
    put(tmp_path, "consolidated.safetensors", tensors(a=("BF16", 64)))
    assert read_weights(tmp_path).total == 64
    put(tmp_path, "model-00001-of-00002.safetensors", tensors(a=("BF16", 32)))
    put(tmp_path, "model-00002-of-00002.safetensors", tensors(b=("BF16", 32)))
    put(tmp_path, "adapter_model.safetensors", tensors(a=("BF16", 8)))
    assert read_weights(tmp_path) == (64, "2 safetensors files", False)
    put(tmp_path, "model.safetensors", tensors(a=("BF16", 60)))
    assert read_weights(tmp_path) == (60, "model.safetensors", False)


def test_a_folder_says_what_its_files_say(tmp_path: Path):
    config = put(tmp_path, "config.json", CONFIG)
    assert "--weights SIZE" in read_folder(tmp_path).notes[-1]
    put(tmp_path, "model.safetensors", tensors(a=("F32", 64)))
    described = read_folder(tmp_path)
    assert described == read_folder(config)
    assert described.attention is not None
    assert described.weights == 64
    assert "stored at 32 bits" in described.notes[-1]


def test_a_folder_without_config_is_refused(tmp_path: Path):
    with pytest.raises(SpecError, match=r"this folder has no config\.json"):
        read_folder(tmp_path)


def test_weights_in_a_folder_that_cannot_be_listed_are_unknown(tmp_path: Path):
    assert read_weights(tmp_path / "gone").total is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cut short"),
        (b"\x08\0\0\0", "cut short"),
        (struct.pack("<Q", 2**63) + b"{}", "cut short"),
        (struct.pack("<Q", 0) + b"{}", "cut short"),
        (struct.pack("<Q", 2) + b"[]", "no JSON object"),
        (struct.pack("<Q", 2) + b"{x", "no JSON"),
        (struct.pack("<Q", 40_002) + b'{"a":' + b"[" * 39_997, "nested too deeply"),
        (tensors(a=("BF16", 64))[:-1], "cut short"),
        (struct.pack("<Q", 7) + b'{"a":1}', "describes a tensor as none can be"),
        (struct.pack("<Q", 44) + b'{"a":{"dtype":"F32","data_offsets":[9, 1]}} ', "describes a tensor as none can be"),
        (struct.pack("<Q", 44) + b'{"a":{"dtype":"F32","data_offsets":[0,1.]}} ', "no JSON"),
        (struct.pack("<Q", 44) + b'{"a":{"dtype":"F32","data_offsets":[0,"1"]}}', "describes a tensor as none can be"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, content: bytes, told: str):
    path = put(tmp_path, "model.safetensors", content)
    with pytest.raises(SpecError, match=told) as caught:
        read_header(path)
    assert str(caught.value).startswith(f"--model: {path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no JSON, or cut short"),
        (b"\xff\xfe", "no JSON"),
        (b'{"a": 1', "cut short"),
        (b"[1, 2]", "no JSON object"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "no JSON"),
        (b" " * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
)
def test_a_config_that_is_none_is_told_in_one_line(tmp_path: Path, content: bytes, told: str):
    path = put(tmp_path, "config.json", content)
    with pytest.raises(SpecError, match=told) as caught:
        read_folder(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(SpecError, match="no file"):
        read_object(tmp_path / "config.json")
    with pytest.raises(SpecError, match="there is no such file"):
        read_object(tmp_path / "other.json")


def test_infinity_in_a_config_is_what_python_writes(tmp_path: Path):
    put(tmp_path, "config.json", json.dumps({**CONFIG, "time_step_limit": [0.0, float("inf")]}).encode())
    assert read_folder(tmp_path).attention is not None


@given(st.data())
def test_a_file_cut_or_changed_anywhere_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    content = bytearray(tensors(a=("BF16", 64), b=("F32", 16)))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = put(tmp_path_factory.mktemp("w"), "model.safetensors", bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        read = read_header(path)
    except SpecError:
        return
    assert all(size >= 0 for size in read.values())
