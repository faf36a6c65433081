"""GGUF files of a few hundred bytes: a header as llama.cpp writes it, and one tensor."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

USUAL: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny Model",
    "general.license": "apache-2.0",
    "general.tags": ["a", "b"],
    "llama.context_length": 2048,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 1,
    "tokenizer.ggml.tokens": ["<s>", "x"],
    "tokenizer.ggml.scores": [0.5, 1.0],
}


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    if isinstance(value, list) and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
    return struct.pack("<II", 4, value)


def _made(**changed: Any) -> bytes:
    size = changed.pop("size", 64)
    fields = {**USUAL, **changed}
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(fields))
    head += b"".join(_text(key) + _value(value) for key, value in fields.items())
    head += _text("output.weight") + struct.pack("<IQIQ", 1, size, 0, 0)  # one dimension, float32, at the beginning
    return head + bytes(-len(head) % 32) + bytes(4 * size)


@pytest.fixture(scope="session")
def gguf_bytes() -> Callable[..., bytes]:
    return _made


@pytest.fixture
def gguf(tmp_path: Path) -> Callable[..., Path]:
    """Write one under a name; `size` is the number of its tensor's values, the rest are fields of its header."""

    def write(name: str, **changed: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_made(**changed))
        return path

    return write
