"""What there is for the embedded model, what it would use, and what to type where something is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.errors import SpecError
from headrace.local.identity import sha256_of
from headrace.local.server import INSTALL, default_serving
from headrace.local.weights import VARIABLE, Unusable, Weights, candidates, find_weights, how_to_get


def survey(environ: Mapping[str, str], state: Path | None) -> dict[str, Any]:
    """The document of `local status --json`. `usable`: a job with url = "local" would run here as things stand."""
    missing = []
    version = _llama_cpp()
    if version is None:
        missing.append(INSTALL)
    weights: dict[str, Any] | None = None
    problem = None
    try:
        chosen = find_weights(environ)
        serving = default_serving(chosen.gguf)
        facts = {"sha256": sha256_of(chosen.path, state), "slots": serving.slots, "context": serving.context}
        weights = {**_described(chosen), **facts}
    except SpecError as error:
        problem = str(error)
        if not environ.get(VARIABLE):
            missing.append(how_to_get())
    return {
        "usable": version is not None and weights is not None,
        "llama_cpp": version,
        "weights": weights,
        "problem": problem,
        "found": [_described(found) for found in candidates(environ)],
        "missing": missing,
    }


def _llama_cpp() -> str | None:
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    try:
        return metadata.version("xllamacpp")
    except metadata.PackageNotFoundError:
        return "unknown"


def _described(found: Weights | Unusable) -> dict[str, Any]:
    if isinstance(found, Unusable):
        return {"path": str(found.path), "source": found.source, "usable": False, "why": found.why}
    why = None if found.gguf.kind == "text" else f"this model ({found.gguf.architecture}) writes no text"
    return {
        "name": found.name, "path": str(found.path), "source": found.source, "usable": why is None, "why": why,
        "bytes": found.gguf.size, "licence": found.licence, "architecture": found.gguf.architecture,
        "trained_context": found.gguf.context_length or None, "names": list(found.names),
    }  # fmt: skip
