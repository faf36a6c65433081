"""`input.where`: a Jinja expression that says which records are asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jinja2 import UndefinedError

from headrace.errors import RecordError, SpecError
from headrace.prompts.environment import compile_expression, guarded, short

KEY = "input.where"
_ALLOWED = "fields by their names, text in quotes, and == != < > in and or not, such as lang == 'en' and text|length > 20"
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
# What people bring along from other languages, and how it is said here.
_FOREIGN = (
    (re.compile(r"\{\{|\{%"), "an expression stands without braces"),
    (re.compile(r"===|(?<![=!<>])=(?!=)"), "== compares"),
    (re.compile(r"&&|\|\||!(?!=)"), "it is and, or, not"),
    (re.compile(r"<>"), "!= says that two differ"),
    (re.compile(r"['\"]"), "a quote is not closed"),
    (re.compile(r"^\s*[A-Za-z_]\w*\s+[A-Za-z_]\w*\s*(?:[=<>]|$)"), "a field whose name is no single word is record['my field']"),
)
_UNDEFINED = "text stands in quotes, a field whose name is no single word as record['my field']"


def compile_where(expression: str) -> Callable[[dict[str, Any]], bool]:
    """A test over a record's fields, compiled once. The whole record stands in it as `record`.

    Raises SpecError(key="input.where") for an expression that cannot be used. The test raises RecordError on a record
    that lacks a field it reads, or on which it fails in another way.
    """
    try:
        evaluate = compile_expression(expression, KEY)
    except SpecError as error:
        raise SpecError(f"{error}; {_hint(expression)}", key=KEY, allowed=_ALLOWED) from None

    def passes(fields: dict[str, Any]) -> bool:
        try:
            return guarded(lambda: bool(evaluate(fields)), fields)
        except RecordError as error:
            cause = error.__context__
            if not isinstance(cause, UndefinedError) or not str(cause.message).endswith("is undefined"):
                raise
            raise RecordError(short(str(error).replace("is undefined", f"is undefined ({_UNDEFINED})", 1))) from None

    return passes


def _hint(expression: str) -> str:
    rest = _QUOTED.sub("x", expression)
    return next((words for pattern, words in _FOREIGN if pattern.search(rest)), f"allowed: {_ALLOWED}")
