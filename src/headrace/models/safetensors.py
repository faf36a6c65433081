"""How many bytes a model's weights are, by the index or the headers of its files."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.models.jsonfile import parse_object, read_object, refused

_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_HEADER_MOST = 32 * 2**20
_FILES_MOST = 10_000
_BYTES_MOST = 2**60


class WeightFiles(NamedTuple):
    """Bytes of all tensors; None where that cannot be told. `source` says what told it, or what is missing."""

    total: int | None
    source: str
    wide: bool = False  # stored at 32 bits, which servers load at 16


def read_weights(folder: Path) -> WeightFiles:
    """By the index where there is one, else by the headers. Raises SpecError in one line for a file that is damaged."""
    for name in _INDEXES:
        if (folder / name).is_file():
            total = _total(read_object(folder / name))
            if total is not None:
                return WeightFiles(total, name)
    files = _files(folder)
    if not files:
        return WeightFiles(None, "no safetensors file or index beside config.json")
    sizes: dict[str, int] = {}
    for path in files:
        for dtype, size in read_header(path).items():
            sizes[dtype] = sizes.get(dtype, 0) + size
    total = sum(sizes.values())
    named = files[0].name if len(files) == 1 else f"{len(files)} safetensors files"
    return WeightFiles(total, named, wide=2 * sizes.get("F32", 0) > total)


def read_header(path: Path) -> dict[str, int]:
    """Bytes of the tensors in one file by their type. Raises SpecError in one line: unreadable, no safetensors, cut short."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
            if not 2 <= length <= min(size - 8, _HEADER_MOST):
                raise refused(path, "no safetensors file, or cut short; fetch it again")
            header = parse_object(file.read(length), path)
    except OSError as error:
        raise refused(path, f"it cannot be read ({error.strerror})") from None
    found: dict[str, int] = {}
    end = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        dtype, begins, ends = _tensor(tensor, path)
        found[dtype] = found.get(dtype, 0) + ends - begins
        end = max(end, ends)
    if end > size - 8 - length:
        raise refused(path, "cut short; fetch it again")
    return found


def _tensor(tensor: Any, path: Path) -> tuple[str, int, int]:
    if isinstance(tensor, dict):
        dtype, offsets = tensor.get("dtype"), tensor.get("data_offsets")
        if isinstance(dtype, str) and isinstance(offsets, list) and len(offsets) == 2 and all(type(at) is int for at in offsets):
            begins, ends = offsets
            if 0 <= begins <= ends <= _BYTES_MOST:
                return dtype[:16], begins, ends
    raise refused(path, "its header describes a tensor as none can be; fetch it again")


def _total(index: Mapping[str, Any]) -> int | None:
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    return total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < _BYTES_MOST else None


def _files(folder: Path) -> list[Path]:
    """The model's own files: folders often hold the same weights once more under another name."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".safetensors"))[:_FILES_MOST]
    except OSError:
        return []
    if "model.safetensors" in names:
        return [folder / "model.safetensors"]
    chosen = [name for name in names if name.startswith("model-")]
    others = [name for name in names if not name.startswith(("consolidated", "adapter"))]
    return [folder / name for name in chosen or others or names]
