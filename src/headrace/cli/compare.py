"""`headrace compare`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json, found
from headrace.cli.printing import columns, print_json, print_lines
from headrace.errors import SpecError
from headrace.observe.text import printable
from headrace.policy.amounts import counted

A = Annotated[str, typer.Argument(metavar="A", help="A run id, a unique prefix of one, a path, or `last`.")]
Others = Annotated[list[str], typer.Argument(metavar="B...", help="One or more runs to hold against A.")]

_VALUE = 32
_DIFF_LINES = 20
_ROWS = 10
_ANSWER = 60
_WORDS = {"noise": "within noise", "unknown": "too little to tell"}


def compare(a: A, b: Others, json: Json = False) -> None:
    """Show what differs between runs: in configuration, in operation (beside what a run varies by itself), and in answers."""
    from headrace.reports.comparison import compare_runs  # noqa: PLC0415 (help and completion do not pay for it)

    first, others = found(a), [found(one) for one in b]
    for name, other in zip(b, others, strict=True):
        if other.path == first.path:
            raise SpecError(
                f"compare: {name[:60]!a} is the same run as {a[:60]!a} ({first.id})",
                key="B", found=first.id, allowed="another run; `headrace runs` lists them",
            )  # fmt: skip
    documents = compare_runs(first, *others)
    if json:
        print_json(documents[0] if len(documents) == 1 else {"comparisons": documents})
        return
    for number, document in enumerate(documents):
        print_lines(([""] if number else []) + list(_lines(document)))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    a, b = document["runs"]
    yield f"a  {a}"
    yield f"b  {b}"
    yield from _part("configuration", _configuration(document["configuration"]))
    yield from _part("operation", _operation(document))
    yield from _part("answers", _answers(document["answers"]))
    measured = [(name, *values) for name, values in document["quality"].items() if values != [None, None]]
    if measured:
        yield from _part("is it right", columns([(name, _score(one), _score(other)) for name, one, other in measured]))
    explanations = [
        f"{one['figure']}: {', '.join(one['keys']) if one['keys'] else _nothing(one['figure'])}"
        + "".join(f"; {name} differs too, and it follows that" for name in one["beside"])
        for one in document["explanations"]
    ]
    if explanations:
        yield from _part("what could explain it", explanations)


def _score(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _part(title: str, lines: list[str]) -> Iterator[str]:
    yield ""
    yield title
    for line in lines:
        yield f"  {line}"


def _nothing(figure: str) -> str:
    if figure == "answers":
        return "nothing that was changed (a server answers differently when other requests share its batch)"
    return "nothing that was changed"


def _configuration(changes: list[dict[str, Any]]) -> list[str]:
    if not changes:
        return ["equal"]
    lines = []
    for change in changes:
        if change["key"] == "input.records":
            lines.append("input.records: the bytes of the input differ")
        elif change.get("diff"):
            lines.append(f"{change['key']}:")
            lines += [f"  {printable(line, 100)}" for line in change["diff"][:_DIFF_LINES]]
            if len(change["diff"]) > _DIFF_LINES:
                lines.append(f"  … {len(change['diff']) - _DIFF_LINES} more lines")
        else:
            lines.append(f"{change['key']}: {_value(change['a'])} -> {_value(change['b'])}")
    return lines


def _value(value: Any) -> str:
    return "not set" if value is None else printable(str(value) if not isinstance(value, str) else repr(value), _VALUE)


def _operation(document: dict[str, Any]) -> list[str]:
    rows = [("", "a", "b", "")]
    for name, (a, b) in document["operation"].items():
        if a is not None or b is not None:
            verdict = document["verdicts"][name]
            told = _WORDS.get(verdict, verdict) if a is not None and b is not None else f"unknown in {'a' if a is None else 'b'}"
            rows.append((name, _figure(name, a), _figure(name, b), told))
    return columns(rows)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if name.endswith(("rate", "share")):
        return f"{100 * value:.2f}%"
    if name.startswith("cost"):
        return f"{value:.3g} USD"
    return f"{value:,.3f} s" if name.startswith("latency") else f"{value:,.1f}"


def _answers(answers: dict[str, Any]) -> list[str]:
    both = answers["both_done"]
    lines = [f"{counted(answers['common'], 'record')} in both; {answers['only_a']:,} only in a, {answers['only_b']:,} only in b"]
    if answers["repeated"]:
        lines.append(f"{answers['repeated']:,} records bear an id that an earlier one of the same run has, and are left out")
    if answers["same_request"] != answers["common"]:
        lines.append(f"{answers['same_request']:,} of them were asked word for word the same")
    if both:
        share = 100 * answers["equal"] / both
        lines.append(f"{answers['equal']:,} of {both:,} answers equal ({share:.1f}%), {answers['changed']:,} changed")
    lines += [f"{one['count']:,} were {one['a']} in a and are {one['b']} in b" for one in answers["statuses"]]
    if answers["labels"]:
        lines += ["", *columns([("label", "a", "b"), *(_share(one) for one in answers["labels"][: 2 * _ROWS])])]
    if answers["pairs"]:
        rows = [(f"{one['count']:,}", _answer(one["a"], 30), "->", _answer(one["b"], 30)) for one in answers["pairs"][:_ROWS]]
        lines += ["", *columns([("changed", "a", "", "b"), *rows])]
    elif answers["examples"]:
        for one in answers["examples"][:3]:
            lines += [f"{_answer(one['id'], 40)}:", f"  a  {_answer(one['a'], _ANSWER)}", f"  b  {_answer(one['b'], _ANSWER)}"]
    return lines


def _share(one: dict[str, Any]) -> tuple[str, str, str]:
    return _answer(one["label"], 30), f"{100 * one['a']:.1f}%", f"{100 * one['b']:.1f}%"


def _answer(value: Any, limit: int) -> str:
    return printable(value if isinstance(value, str) else str(value), limit)
