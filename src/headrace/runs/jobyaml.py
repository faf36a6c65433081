"""Job files in YAML, read as YAML 1.2 would: no dates, no yes/no booleans, no sexagesimal numbers, no duplicate keys."""

from __future__ import annotations

import re
from typing import Any

import yaml

from headrace.errors import SpecError

_RESOLVERS: tuple[tuple[str, str, str], ...] = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)


class _Loader(yaml.SafeLoader):
    """A safe loader of its own, so that the resolvers of other users of the library stay as they are."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, "a key stands twice in one table", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), ["" if char == "\0" else char for char in _first]
    )
# The library's constructor reads a leading 0 as octal and colons as base 60; these are the plain ones.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


def parse_yaml(text: str, name: str) -> Any:
    """The one document of a YAML text. `name` is the file's, for the message. Raises SpecError."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise SpecError(f"{name}: not valid YAML: {_plain(error.problem or error.context)}{where}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SpecError(f"{name}: not valid YAML") from None


def _plain(problem: str | None) -> str:
    """The library's words without what it quotes from the file: that could be a secret."""
    return re.sub(r"'[^']*'", "…", problem or "it cannot be read")
