from __future__ import annotations

import inspect
import re

import pytest

from headrace import errors
from headrace.errors import HeadraceError, NotYetError, SpecError

TREE = [made for _, made in inspect.getmembers(errors, inspect.isclass) if issubclass(made, HeadraceError)]


def drawn() -> dict[str, tuple[int, int | None]]:
    """What the tree in the docstring says of each error: how deep it stands, and its exit code."""
    found = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+Error)\b(?:.*\bexit (\d+))?", line)
        if match is not None:
            found[match[2]] = (len(match[1]) // 4, int(match[3]) if match[3] else None)
    return found


def test_the_tree_is_drawn_as_it_is() -> None:
    assert set(drawn()) == {made.__name__ for made in TREE}


@pytest.mark.parametrize("made", TREE, ids=lambda made: made.__name__)
def test_an_error_stands_where_it_is_drawn_and_ends_the_command_as_said(made: type[HeadraceError]) -> None:
    depth, code = drawn()[made.__name__]
    assert len(made.__mro__) - len(HeadraceError.__mro__) == depth
    assert made.exit_code == (1 if code is None else code)


@pytest.mark.parametrize("made", [SpecError, NotYetError])
def test_a_spec_error_says_where_what_was_found_and_what_may_stand_there(made: type[SpecError]) -> None:
    error = made("limits.drain: found 3x", key="limits.drain", found="3x", allowed="a duration")
    assert (str(error), error.key, error.found, error.allowed) == ("limits.drain: found 3x", "limits.drain", "3x", "a duration")


def test_a_spec_error_of_no_one_key_is_a_message_alone() -> None:
    error = SpecError("no job file here")
    assert (str(error), error.key, error.found, error.allowed) == ("no job file here", None, None, None)
