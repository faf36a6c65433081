"""What has changed between a run and a job: keys of the configuration, and records of the input by number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from headrace.errors import HeadraceError, RecordError
from headrace.ledger.reader import LedgerReader
from headrace.policy.amounts import counted
from headrace.runs.job import Job
from headrace.runs.making import making_of
from headrace.runs.registry import RunFolder
from headrace.sources.open import open_source
from headrace.spec import JobSpec

Known = tuple[str, bytes | None]


def changed_keys(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys whose values differ."""
    keys = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict) and not prefix:
            keys += changed_keys(old, new, f"{key}.")
        else:
            keys.append(prefix + key)
    return keys


def input_changes(folder: RunFolder, content: dict[str, Any], job: Job) -> str:
    """How many records were added, removed and changed, as the run's own configuration would read the input now."""
    reader = LedgerReader(folder.ledger)
    try:
        before = list(_known(reader, content))
        whole = bool(reader.meta("reading", {}).get("done", False))
        after = list(_records(content, job))
    except HeadraceError as error:
        return f"it cannot be compared: {error}"
    finally:
        reader.close()
    if not whole:
        after = after[: len(before)] if len(after) > len(before) else after
    added, removed, changed = compare(before, after, by_name=content["input"].get("id") is not None)
    return f"{counted(added, 'record')} added, {removed:,} removed, {changed:,} changed"


def continues(folder: RunFolder, content: dict[str, Any], job: Job) -> bool:
    """Whether what an unfinished reading has read stands unchanged at the input's beginning: the rest may be what it likes.

    So a run goes on whose input broke off and was mended, or grew meanwhile.
    """
    reader = LedgerReader(folder.ledger)
    try:
        now = _records(content, job)
        if any(next(now, None) != known for known in _known(reader, content)):
            return False
    except HeadraceError:
        return False
    finally:
        reader.close()
    return True


def _known(reader: LedgerReader, content: dict[str, Any]) -> Iterator[Known]:
    """What each of a run's items asked: the hash of its unit, or what stands for those of its pieces."""
    if content.get("slice", {}).get("split") is None:
        for name, number, value, _ in reader.stream("item_hashes"):
            yield name if name is not None else str(number), value
        return
    for _, rows in groupby(reader.stream("piece_hashes"), key=itemgetter(0)):
        pieces = list(rows)
        _, name, number, value, _ = pieces[0]
        yield name if name is not None else str(number), None if value is None else b"".join([row[3] for row in pieces])


def compare(before: list[Known], after: list[Known], *, by_name: bool) -> tuple[int, int, int]:
    """(added, removed, changed). Records are matched by their id where the job has one, else by what they ask."""
    if not by_name:
        old, new = Counter(value for _, value in before), Counter(value for _, value in after)
        gone, come = (old - new).total(), (new - old).total()
        changed = min(gone, come)
        return come - changed, gone - changed, changed
    old_by_name, new_by_name = _by_name(before), _by_name(after)
    added = removed = changed = 0
    for name in {**old_by_name, **new_by_name}:
        old_values, new_values = old_by_name.get(name, Counter()), new_by_name.get(name, Counter())
        gone, come = (old_values - new_values).total(), (new_values - old_values).total()
        changed += min(gone, come)
        added += max(0, come - gone)
        removed += max(0, gone - come)
    return added, removed, changed


def _by_name(records: list[Known]) -> dict[str, Counter[bytes | None]]:
    found: dict[str, Counter[bytes | None]] = defaultdict(Counter)
    for name, value in records:
        found[name][value] += 1
    return found


def _records(content: dict[str, Any], job: Job) -> Iterator[Known]:
    """The input's records now: id and hash, None for one that would be rejected."""
    spec = JobSpec.model_validate({**job.spec.model_dump(mode="json", by_alias=True), **content})
    making = making_of(spec)
    source = open_source(spec.input.path, job.base, max_record=spec.input.max_record, query=spec.input.query)
    try:
        count, done = 0, False
        while not done:
            chunk = source.read(1000)
            done = chunk.done
            for record in chunk.records:
                fields = record.fields
                name = str(record.number)
                value = None
                if fields is not None:
                    named = fields.get(making.id_field) if making.id_field is not None else None
                    name = orjson.dumps(named, default=str).decode() if named is not None else name
                    try:
                        if making.where is not None and not making.where(fields):
                            continue
                        value = b"".join(making.asked(making.slicer(count, fields))[0])
                    except RecordError:
                        value = None
                if making.limit is not None and count >= making.limit:
                    return
                count += 1
                yield name, value
    finally:
        source.close()
