"""A model's folder as the Hugging Face hub lays it out, or its config.json."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from headrace.models.config import describe_config
from headrace.models.description import Description
from headrace.models.jsonfile import read_object, refused
from headrace.models.safetensors import read_weights


def read_folder(path: Path) -> Description:
    """What the folder says, or the folder that the given config.json lies in. Raises SpecError in one line."""
    if path.is_dir():
        folder, config = path, path / "config.json"
        if not config.exists():
            raise refused(path, "this folder has no config.json")
    else:
        folder, config = path.parent, path
    described = describe_config(read_object(config))
    weights = read_weights(folder)
    notes = [*described.notes]
    if weights.total is None:
        notes.append(f"the weights are unknown: {weights.source}; --weights SIZE tells them")
    elif weights.wide:
        notes.append("the weights are stored at 32 bits; servers load them at 16, which halves them: --weights SIZE tells them")
    return replace(described, weights=weights.total, notes=tuple(notes))
