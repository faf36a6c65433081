"""`headrace runs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json
from headrace.cli.printing import columns, print_json, print_lines, print_words
from headrace.cli.summary import item_counts
from headrace.errors import HeadraceError
from headrace.policy.amounts import money
from headrace.runs.registry import RunFolder, list_runs, state_folder

Everywhere = Annotated[bool, typer.Option("--all", help="Also the runs in other folders that the user's registry knows.")]


def runs(everywhere: Everywhere = False, json: Json = False) -> None:
    """List the runs under the nearest .headrace, newest first."""
    entries = [_entry(folder) for folder in list_runs(Path.cwd(), state_folder(os.environ), everywhere=everywhere)]
    if json:
        print_json({"runs": entries})
    elif not entries:
        print_words("there is no run here or in a parent folder")
    else:
        rows = [("run", "name", "state", "started", "cost", "items")]
        rows += [
            (entry["run"], entry["name"] or "-", entry["state"], entry["started"] or "-", _cost(entry), _counts(entry))
            for entry in entries
        ]
        print_lines(columns(rows))


def _entry(folder: RunFolder) -> dict[str, Any]:
    from headrace.runs.status import status as status_of  # noqa: PLC0415 (help and completion do not pay for it)

    entry: dict[str, Any] = {"run": folder.id, "name": None, "state": "unreadable", "started": folder.started, "items": None}
    try:
        status = status_of(folder.path)
    except HeadraceError as error:  # one broken run hides none of the others
        return {**entry, "path": str(folder.path), "error": str(error)}
    entry |= {name: status[name] for name in ("name", "state", "items", "cost")}
    return {**entry, "path": str(folder.path)}


def _cost(entry: dict[str, Any]) -> str:
    cost = entry.get("cost")
    if cost is None or (not cost["spent"] and not cost["known"]):
        return "-"
    return f"{'' if cost['known'] else '≥ '}{money(cost['spent'])} {cost['currency']}"


def _counts(entry: dict[str, Any]) -> str:
    return item_counts(entry["items"]) if entry["items"] is not None else entry["error"]
