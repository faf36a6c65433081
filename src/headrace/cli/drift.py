"""`headrace drift`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json, found
from headrace.cli.printing import facts, print_json, print_lines
from headrace.errors import SpecError

A = Annotated[str, typer.Argument(metavar="A", help="A run id, a unique prefix of one, a path, or `last`.")]
B = Annotated[str, typer.Argument(metavar="B", help="The run that is held against it.")]


def drift(a: A, b: B, json: Json = False) -> None:
    """Say whether two runs answer differently as a whole: labels, lengths, unusable answers, and how many answers flipped."""
    one, other = found(a), found(b)
    if one.path.resolve() == other.path.resolve():
        raise SpecError(f"drift: {b[:60]!a} is the same run as {a[:60]!a} ({one.id})", key="B", allowed="another run")
    from headrace.runs.drifting import drift_between, insist_on_scipy  # noqa: PLC0415 (help does not pay for it)

    insist_on_scipy()
    document = drift_between(one, other)
    if json:
        print_json(document)
        return
    print_lines([f"a  {one.id}", f"b  {other.id}", "", *facts(_rows(document))])


def _rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    shift, tests = found["labels"], found["tests"]
    answered = "{:,} and {:,}".format(*found["answers"])
    rows = [("verdict", found["verdict"]), ("answers", f"{answered}, {found['common']:,} common")]
    if shift is not None:
        words = f"Cramér's V {shift['cramers_v']:.3f}, JS {shift['js']:.4f} bits, PSI {shift['psi']:.4f}"
        rows.append(("labels", f"{words} (chance: below {shift['psi_noise']:.4f}), p {shift['p']:.3g}"))
    if found["flips"] is not None:
        low, high = found["flips_interval"]
        own = "not measured" if found["own_flips"] is None else f"{found['own_flips']:.2%}"
        rows.append(("flips", f"{found['flips']:.2%} (95 %: {low:.2%} to {high:.2%}); by itself: {own}"))
    if all(found["answers"]):
        rows.append(("length", f"{found['length'][0]:,.1f} and {found['length'][1]:,.1f} bytes, p {tests['length']['p']:.3g}"))
    rows += [(name, f"{a:.2%} and {b:.2%}, p {tests[name]['p']:.3g}") for name, (a, b) in found["rates"].items()]
    return rows
