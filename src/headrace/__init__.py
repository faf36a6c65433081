"""headrace: offline LLM work at scale against any OpenAI-compatible endpoint.

    result = headrace.run("job.toml")

The names below are the public ones, with `headrace.errors`, `headrace.protocols` and `headrace.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError, InputError, LedgerError, SpecError

if TYPE_CHECKING:
    from headrace.runs.api import Job, Result, arun, run

__version__ = "0.1.0"

__all__ = ["HeadraceError", "InputError", "Job", "LedgerError", "Result", "SpecError", "__version__", "arun", "run"]

_LAZY = frozenset({"Job", "Result", "arun", "run"})


if not TYPE_CHECKING:  # to a type checker such a function says that the module has whatever name is asked of it

    def __getattr__(name: str) -> Any:
        """The engine is loaded when it is first used: `headrace --version` does not pay for it."""
        if name in _LAZY:
            from headrace.runs import api  # noqa: PLC0415

            value = globals()[name] = getattr(api, name)
            return value
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
