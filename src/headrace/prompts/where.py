"""`input.where`: a Jinja expression that says which records are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.prompts.environment import compile_expression, guarded

KEY = "input.where"


def compile_where(expression: str) -> Callable[[dict[str, Any]], bool]:
    """A test over a record's fields, compiled once. The whole record stands in it as `record`.

    Raises SpecError(key="input.where") for an expression that cannot be used. The test raises RecordError on a record
    that lacks a field it reads, or on which it fails in another way.
    """
    evaluate = compile_expression(expression, KEY)

    def passes(fields: dict[str, Any]) -> bool:
        return guarded(lambda: bool(evaluate(fields)), fields)

    return passes
