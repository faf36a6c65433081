"""headrace: offline LLM work at scale against any OpenAI-compatible endpoint."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
