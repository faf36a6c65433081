"""How an answer is held against what was expected: a number from 0 (wrong) to 1 (right)."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

from headrace import canon
from headrace.errors import HeadraceError, SpecError
from headrace.spec import QualitySpec

Scorer = Callable[[Any, Any, dict[str, Any]], float]
"""Answer, what was expected, the record's fields → 0 to 1. Raises ScoringError."""

GRADED = ("python:",)  # scorers that may say something between right and wrong


class ScoringError(HeadraceError):
    """An answer could not be scored: that is no score. The message is one line."""


def scorer_of(quality: QualitySpec, base: Path) -> Scorer:
    """The job's scorer; a Python module is looked for beside the job file. Raises SpecError."""
    name = quality.scorer
    if name.startswith("python:"):
        return _python(name, base)
    if name == "numeric":
        return lambda answer, expected, _: float(_near(answer, expected, quality.tolerance))
    if name == "field":
        if quality.field is None:
            raise SpecError(
                'quality.scorer = "field" needs quality.field, the name of what is scored',
                key="quality.field",
                allowed="a field's name",
            )
        return _field(quality.field)
    compare = {"exact": _equal, "contains": _contains, "regex": _matches, "json_subset": _is_subset}[name]
    return lambda answer, expected, _: float(compare(answer, expected))


def check_expected(quality: QualitySpec, expected: Any) -> str | None:
    """Why nothing can be held against this; None where it can."""
    if quality.scorer == "regex":
        if not isinstance(expected, str):
            return 'expected is no text, and scorer = "regex" needs a pattern'
        try:
            re.compile(expected)
        except re.error as error:
            return f"expected is no regular expression ({error})"
    if quality.scorer == "numeric" and _number(expected) is None:
        return 'expected is no number, and scorer = "numeric" needs one'
    return None


def normal(text: str) -> str:
    """Without what people do not mean: compatibility forms, case, and how white space is written."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _equal(answer: Any, expected: Any) -> bool:
    if isinstance(answer, str) and isinstance(expected, str):
        return normal(answer) == normal(expected)
    if isinstance(answer, str) != isinstance(expected, str):
        text, other = (answer, expected) if isinstance(answer, str) else (expected, answer)
        return not isinstance(other, dict | list) and normal(text) == normal(canon.encode(other).decode())
    return _same(answer, expected)


def _same(answer: Any, expected: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, true and 1 are not; texts as they are normalised."""
    if isinstance(answer, bool) or isinstance(expected, bool) or answer is None or expected is None:
        return answer is expected
    if isinstance(answer, dict) and isinstance(expected, dict):
        return answer.keys() == expected.keys() and all(_same(value, expected[key]) for key, value in answer.items())
    if isinstance(answer, list) and isinstance(expected, list):
        return len(answer) == len(expected) and all(_same(a, b) for a, b in zip(answer, expected, strict=True))
    if isinstance(answer, str) and isinstance(expected, str):
        return normal(answer) == normal(expected)
    return bool(answer == expected)


def _field(name: str) -> Scorer:
    def score(answer: Any, expected: Any, _: dict[str, Any]) -> float:
        wanted = expected.get(name) if isinstance(expected, dict) else expected
        return float(isinstance(answer, dict) and name in answer and _equal(answer[name], wanted))

    return score


def _near(answer: Any, expected: Any, tolerance: float) -> bool:
    found, wanted = _number(answer), _number(expected)
    return found is not None and wanted is not None and abs(found - wanted) <= tolerance


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _contains(answer: Any, expected: Any) -> bool:
    text = normal(_text(answer))
    parts = expected if isinstance(expected, list) else [expected]
    return all(normal(_text(part)) in text for part in parts)


def _matches(answer: Any, expected: Any) -> bool:
    return re.search(expected, _text(answer)) is not None


def _is_subset(answer: Any, expected: Any) -> bool:
    """Whether everything that is expected is there: of an object its keys, of a list each element, in any order."""
    if isinstance(expected, dict):
        return isinstance(answer, dict) and all(key in answer and _is_subset(answer[key], part) for key, part in expected.items())
    if isinstance(expected, list):
        return isinstance(answer, list) and all(any(_is_subset(one, part) for one in answer) for part in expected)
    return _same(answer, expected)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canon.encode(value).decode()


def _python(name: str, base: Path) -> Scorer:
    """The user's own function of (answer, expected, record), found by module and name."""
    _, module_name, function_name = name.split(":")
    path = base.joinpath(*module_name.split(".")).with_suffix(".py")
    wrong = f"quality.scorer: {name[:100]!a}"
    if not path.is_file():
        raise SpecError(
            f"{wrong}: there is no {path}", key="quality.scorer", allowed="python:module:function beside the job file"
        )
    spec = importlib.util.spec_from_file_location(f"headrace_scorer_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SpecError(f"{wrong}: {path} is no Python file", key="quality.scorer")
    module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
        function = getattr(module, function_name)
    except (Exception, SystemExit) as error:
        raise SpecError(f"{wrong}: {path} cannot be used ({_one_line(error)})", key="quality.scorer") from error
    if not callable(function):
        raise SpecError(f"{wrong}: {function_name} in {path} is no function", key="quality.scorer")

    def score(answer: Any, expected: Any, record: dict[str, Any]) -> float:
        try:
            with redirect_stdout(sys.stderr):  # what it prints is no part of a document
                found = function(answer, expected, deepcopy(record))
        except (Exception, SystemExit) as error:
            raise ScoringError(f"{function_name} raised {_one_line(error)}") from error
        if not isinstance(found, bool | int | float) or not 0 <= found <= 1:
            raise ScoringError(f"{function_name} gave {str(found)[:60]!a}, and not a number from 0 to 1")
        return float(found)

    return score


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
