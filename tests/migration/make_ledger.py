"""Writes the ledger that stands for a schema version: `python tests/migration/make_ledger.py`, once per version, by hand."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from headrace.ledger.reader import LedgerReader
from headrace.ledger.statements import SCHEMA_VERSION
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch
from headrace.runs.status import status
from headrace.values import Answer, Attempt, Item, Kind, Note, Outcome, Reply, Sample, Sent, Slice, State, Unit, Usage

LEDGERS = Path(__file__).parent / "ledgers"
FIGURES = (
    "state", "reason", "exit_code", "input_complete", "items", "units", "requests", "tokens", "latency_s", "context_tokens",
    "concurrency", "rate", "configurations",
)  # fmt: skip


def write(path: Path) -> None:
    """Forty items over thirty-two units of every state, two configurations, a crash, retries, odd texts, an item in two pieces."""
    ledger = SqliteLedger(path)
    for at, temperature in ((10.0, 0), (20.0, 0.5)):
        ledger.add_config(at, {"model": {"name": "m", "temperature": temperature}}, {"limits": {"drain": 30}})
    ledger.add_endpoint("host/v1", "http://host/v1")
    ledger.commit(reading())
    ledger.commit(sending())
    ledger.recover(1, 150.0, retry_ambiguous=True)
    ending = Batch()
    ending.meta = {"ending": {"reason": "max_requests", "exit_code": 5, "finished": False}}
    ledger.commit(ending)
    ledger.close()


def reading() -> Batch:
    batch = Batch()
    for seq in range(40):
        rejected = "bad_input: no field 'text'" if seq in {7, 8} else None
        odd: Any = ["é \u2028", "\ud800", 10**30, True, None][seq % 5]
        batch.items.append(Item(seq, 1, seq * 50, 49, seq + 1, odd, error=rejected, readable=seq != 8))
    owners = [seq for seq in range(40) if seq not in {7, 8}]
    batch.units = [Unit(seq=n, hash=bytes([n]) * 16, item=owners[n]) for n in range(32)]
    batch.pieces = [(owner, 0, n % 32) for n, owner in enumerate(owners)]
    batch.pieces.append((39, 1, 31))
    batch.slices = [Slice(39, 0, "text", 0, 40, 2), Slice(39, 1, "text", 36, 60, 0)]
    batch.leases = list(range(28))
    batch.meta = {"reading": {"position": "40", "items": 40, "done": True}}
    return batch


def sending() -> Batch:
    batch = Batch()
    for n in range(26):
        usage = Usage(100 + n, 10 + n, 64 if n % 2 else None, None)
        reply = Reply(
            content=f"answer {n} \ud800" if n == 3 else f"answer {n}",
            finish="stop",
            model="m",
            usage=usage,
            timing=(0.01 * n, 0.5),
        )
        common: dict[str, Any] = {"ask": 0, "started_at": 100.0 + n, "seconds": 0.5 + n / 10, "config": 1 + n % 2, "endpoint": 1}
        if n % 10 == 4:
            late = Attempt(unit=n, kind=Kind.TIMEOUT, sent=Sent.MAYBE, message="no reply in 60 s", most=(600, 64), **common)
            batch.outcomes.append(Outcome(n, State.LEASED, late, spent=1, age_s=60.5))
        if n % 10 == 5:
            refused = Attempt(unit=n, kind=Kind.BAD_REQUEST, message="too odd", status=400, **common)
            batch.outcomes.append(Outcome(n, State.FAILED, refused, error="bad_request: too odd", spent=1))
            continue
        if n % 10 == 6:
            empty = Attempt(unit=n, kind=Kind.EMPTY, message="no content", status=200, reply=Reply(""), usage=usage, **common)
            batch.outcomes.append(Outcome(n, State.QUARANTINED, empty, error="empty: no content", ask=1, spent=1))
            continue
        if n in {10, 11}:
            reply = Reply(content=" a", finish="length", model="m", usage=usage, likeliest=[(" a", -0.25), ("\udcc3", -2.5)])
        answered = Attempt(unit=n, status=200, reply=reply, usage=usage, **common)
        answer = Answer('"a"', confidence=0.75) if n == 10 else Answer(None, (Note.REPAIRED,) if n == 1 else ())
        batch.outcomes.append(Outcome(n, State.DONE, answered, answer, spent=1))
    batch.released = [27]  # 26 stays leased: a crash
    batch.samples = [
        Sample(
            100.0 + n,
            1,
            8,
            6 + n % 3,
            n,
            0,
            "endpoint" if n % 2 else None,
            paused=False,
            lag_s=0.001,
            waiting=n % 4,
            kv_used=n / 10,
        )
        for n in range(9)
    ]
    return batch


def figures(ledger: Path) -> dict[str, Any]:
    """What a ledger file says of itself; of fields that may be added nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        folder.mkdir()
        shutil.copy(ledger, folder / "ledger.db")
        document = status(folder)
        reader = LedgerReader(folder / "ledger.db")
        found = {
            "status": {key: document[key] for key in FIGURES},
            "failed_units": reader.all("failed_units"),
            "rejected_items": reader.all("rejected_items"),
        }
        reader.close()
    return {key: json.loads(json.dumps(value)) for key, value in found.items()}


if __name__ == "__main__":
    target = LEDGERS / f"v{SCHEMA_VERSION}.db"
    if target.exists():
        raise SystemExit(f"{target} stands for a version already; a new one needs a new version.")
    LEDGERS.mkdir(exist_ok=True)
    write(target)
    target.with_suffix(".json").write_text(json.dumps(figures(target), indent=1) + "\n", encoding="utf-8")
