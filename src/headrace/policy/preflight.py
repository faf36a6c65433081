"""What a server says of itself, held against what the job asks of it: the model's name, and the longest prompt."""

from __future__ import annotations

from difflib import get_close_matches

from msgspec import Struct

from headrace.values import Capacity

STRICT = frozenset({"vllm"})  # it refuses each name that it does not list
ANY_NAME = frozenset({"sglang", "llama.cpp", "tgi", "tei", "tensorrt-llm"})  # it answers to each
_NAMED = 3
_SHOWN = 80
_SURELY = 1.25  # an estimate of tokens may be off by this much


class Unlisted(Struct, frozen=True):
    """The model is not among those that the server lists. `is_certain`: nothing that is sent there can be answered."""

    message: str
    is_certain: bool


def unlisted(model: str, capacity: Capacity) -> Unlisted | None:
    """None where the model is listed, where no list is told or only a part of it, and where any name is answered."""
    names = capacity.models
    if not names or capacity.server in ANY_NAME:
        return None
    if capacity.server in STRICT:
        wanted = "".join(filter(str.isprintable, model))
        if any(name == wanted or (len(name) >= 200 and wanted.startswith(name)) for name in names):
            return None
        return Unlisted(f"it does not serve the model {_shown(model)}{nearest(model, names)}", is_certain=capacity.lists_all)
    if not capacity.lists_all or _is_like(model, names):
        return None
    words = f"it does not list the model {_shown(model)}{nearest(model, names)}; the first request finds out"
    return Unlisted(words, is_certain=False)


def nearest(model: str, names: tuple[str, ...]) -> str:
    """A clause that names those of the names that are most like this one, else the first; empty where there are none."""
    if not names:
        return ""
    by_lower = {name.lower(): name for name in reversed(names)}
    near = [by_lower[found] for found in get_close_matches(model.lower(), by_lower, _NAMED, cutoff=0.5)]
    if near:
        return f"; it lists {' and '.join(map(_shown, near))}"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"; it lists {', '.join(map(_shown, names[:_NAMED]))}{more}"


def _is_like(model: str, names: tuple[str, ...]) -> bool:
    """By the ways in which servers let a name be written that is not the one in their list."""
    wanted = model.lower()
    ways = {wanted, f"{wanted}:latest", wanted.partition(":")[0]}
    last = wanted.rpartition("/")[2]
    return any(name in ways or name.rpartition("/")[2] in ways or name == last for name in map(str.lower, names))


def _shown(name: str) -> str:
    return f'"{name[:_SHOWN]}"'


def too_long(context: int, max_tokens: int | None, longest: float) -> str | None:
    """A sentence where a request cannot fit into the server's context: none of the job, or the longest read so far.

    `longest` is an estimate of the tokens of the longest prompt; what may fit, seeing that it is one, is said nothing of.
    """
    answer = max_tokens or 0
    if answer >= context:
        return f"model.max_tokens = {answer:,} leaves no room for a prompt in the server's context of {context:,} tokens"
    if longest / _SURELY + answer <= context:
        return None
    with_answer = f", with model.max_tokens = {answer:,} about {longest + answer:,.0f}" if answer else ""
    return (
        f"the longest prompt read so far has about {longest:,.0f} tokens{with_answer}; the server's context is {context:,}: "
        "such records fail alone, the others go on"
    )
