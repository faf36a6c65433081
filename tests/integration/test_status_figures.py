"""The figures of status against a plain reading of the same ledger."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.runs.attempts import count_asks, read_attempts
from headrace.runs.pipeline import RunOptions
from headrace.runs.registry import RunFolder
from headrace.runs.spending import Tariffs
from headrace.runs.status import status
from headrace.testing.contracts.batches import attempt, batch, items, pieces, units_of
from headrace.values import Answer, Kind, Origin, Outcome, Reply, Sent, State, Usage

ITEMS = 1500


def outcome(rng: random.Random, seq: int, state: State) -> Outcome:
    usage = rng.choice([None, Usage(rng.randrange(900), rng.choice([None, 7, 90]), 5), Usage(None, 3)])
    send = attempt(
        seq, usage=usage, seconds=rng.uniform(0.1, 9.0), started_at=1000 + rng.uniform(0, 90), ask=rng.choice([0, 0, 1])
    )
    if state == State.DONE:
        origin = rng.choice([Origin.SENT] * 9 + [Origin.REUSED])
        return Outcome(seq, state, _like(send, reply=Reply("x", "stop"), origin=origin), Answer())
    kind = rng.choice([Kind.TIMEOUT, Kind.TRUNCATED, Kind.SERVER_ERROR])
    origin = rng.choice([Origin.SENT] * 9 + [Origin.LOST])
    return Outcome(seq, state, _like(send, kind=kind, sent=rng.choice(list(Sent)), origin=origin), error=f"{kind}: \ud800")


def _like(send: Any, **changes: Any) -> Any:
    return type(send)(**{name: getattr(send, name) for name in send.__struct_fields__} | changes)


def filled(path: Path, outcomes: list[Outcome]) -> RunFolder:
    path.mkdir()
    ledger = SqliteLedger(path / "ledger.db")
    ledger.add_config(1.0, {"n": 1}, {})
    ledger.commit(batch(items=items(ITEMS), pieces=pieces(ITEMS), units=units_of(ITEMS), leases=list(range(ITEMS))))
    ledger.commit(batch(outcomes=outcomes))
    ledger.close()
    return RunFolder(path)


@pytest.fixture
def mixed(tmp_path: Path) -> RunFolder:
    """Each of some units has up to three tries in a random order, and its last outcome."""
    rng = random.Random(5)
    tries = [seq for seq in range(400) for _ in range(rng.choice([0, 0, 1, 2]))]
    rng.shuffle(tries)
    outcomes = [outcome(rng, seq, State.PENDING) for seq in tries]
    states = [State.DONE, State.DONE, State.DONE, State.FAILED, State.QUARANTINED]
    return filled(tmp_path / "run", outcomes + [outcome(rng, seq, rng.choice(states)) for seq in range(700)])


def rows(folder: RunFolder, query: str) -> list[Any]:
    reader = LedgerReader(folder.ledger)
    try:
        return reader._db.execute(query).fetchall()
    finally:
        reader.close()


def test_requests_and_retries_are_those_of_the_attempts(mixed: RunFolder) -> None:
    requests = status(mixed.path)["requests"]
    sends = rows(mixed, "SELECT unit, ask, kind FROM attempt WHERE origin = 0")
    ((never_left,),) = rows(mixed, "SELECT count(*) FROM attempt WHERE sent = 'no'")
    assert never_left > 0
    assert requests["retries"] == len(sends) - len({(unit, ask) for unit, ask, _ in sends}) > 0
    ((lost, leased, reused),) = rows(
        mixed,
        "SELECT (SELECT count(*) FROM attempt WHERE origin = 1), (SELECT count(*) FROM unit WHERE state = 1), "
        "(SELECT count(*) FROM attempt WHERE origin = 2)",
    )
    assert requests["sent"] == len(sends) - never_left + lost + leased
    assert (requests["possibly_sent"], requests["reused"]) == (lost + leased, reused)
    kinds = [kind for *_, kind in sends if kind is not None]
    assert requests["by_kind"] == {kind: kinds.count(kind) for kind in set(kinds)}


def test_tokens_and_times_are_those_of_the_attempts(mixed: RunFolder) -> None:
    document = status(mixed.path)
    found = rows(
        mixed, "SELECT kind, prompt_tokens, completion_tokens, cached_tokens, seconds, origin FROM attempt WHERE origin < 2"
    )
    tokens = document["tokens"]
    assert tokens["prompt"] == sum(row[1] or 0 for row in found)
    assert tokens["completion"] == sum(row[2] or 0 for row in found)
    assert tokens["cached"] == sum(row[3] or 0 for row in found)
    assert tokens["wasted"] == sum((row[1] or 0) + (row[2] or 0) for row in found if row[0] is not None)
    accepted = [row for row in found if row[0] is None and row[5] == 0]
    assert document["latency_s"]["p95"] == pytest.approx(np.percentile([row[4] for row in accepted], 95), abs=1e-4)
    contexts = [row[1] + (row[2] or 0) for row in accepted if row[1] is not None]
    assert document["context_tokens"] == {
        "mean": round(sum(contexts) / len(contexts), 1),
        "p95": round(float(np.percentile(contexts, 95)), 1),
        "max": max(contexts),
    }


def test_items_and_units_are_those_of_the_states(mixed: RunFolder) -> None:
    document = status(mixed.path)
    states = [state for (state,) in rows(mixed, "SELECT state FROM unit")]
    counts = {"done": states.count(2), "failed": states.count(3), "quarantined": states.count(4)}
    settled = sum(counts.values())
    assert document["items"] == {"total": ITEMS, **counts, "rejected": 0, "pending": ITEMS - settled}
    assert document["units"] == {"total": ITEMS, "done": counts["done"], "duplicates_saved": 0}
    assert document["configurations"] == [{"config": 1, "done": counts["done"]}]
    assert len(document["advice"]) == 1


def test_a_run_in_which_each_unit_was_sent_once_has_no_retries(tmp_path: Path) -> None:
    outcomes = [Outcome(seq, State.DONE, attempt(seq, reply=Reply("x", "stop")), Answer()) for seq in range(ITEMS)]
    document = status(filled(tmp_path / "run", outcomes).path)
    assert document["requests"] == {"sent": ITEMS, "retries": 0, "by_kind": {}, "possibly_sent": 0, "reused": 0}
    assert document["items"]["done"] == ITEMS
    assert document["advice"] == []


def test_a_ledger_without_attempts_adds_up_to_nothing(tmp_path: Path) -> None:
    reader = LedgerReader(filled(tmp_path / "run", []).ledger)
    attempts = read_attempts(reader, Tariffs({}, ()))
    assert (attempts.sums, attempts.span_s, len(attempts.seconds), len(attempts.contexts)) == ({}, 0.0, 0, 0)
    assert count_asks(reader) == 0
    reader.close()


def test_absurd_counts_neither_overflow_nor_fail(tmp_path: Path) -> None:
    absurd = Usage(2**63 - 1, 2**63 - 1, 2**63 - 1)
    outcomes = [Outcome(seq, State.DONE, attempt(seq, reply=Reply("x", "stop"), usage=absurd), Answer()) for seq in range(3)]
    document = status(filled(tmp_path / "run", outcomes).path)
    assert document["tokens"]["prompt"] == 3 * 2**63
    assert document["context_tokens"]["max"] == 2**63 - 1


@pytest.mark.slow
def test_the_time_of_answers_is_split_where_the_server_tells_of_its_work(mill):
    mill.put_texts(60)
    mill.put_job("http://127.0.0.1:9/v1", model={"name": "sim"}, endpoint={"concurrency": 8})
    laws = {"slots": 2, "prefill_ms_per_token": 2.0, "decode_ms_per_token": 5.0, "answer": "text:one two three four"}
    split = mill.rehearse(style="llama.cpp", **laws).result.status["latency_split_s"]
    whole = mill.command("status", "--json").document["latency_s"]
    assert set(split) == {"queue", "prompt", "generation"}
    assert 0.0 < split["prompt"]["p50"] < 0.05
    assert 0.02 < split["generation"]["p50"] < 0.1
    assert split["queue"]["p50"] > split["generation"]["p50"]  # eight ask, two are served
    assert split["queue"]["max"] <= whole["max"]
    assert "of it      queue " in mill.command("status").out
    mill.put_job("http://127.0.0.1:9/v1", model={"name": "sim"}, output={"path": "b.jsonl"})
    assert mill.rehearse(options=RunOptions(new=True), style="vllm").result.status["latency_split_s"] is None
