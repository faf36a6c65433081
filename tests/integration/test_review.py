"""The spot check over HTTP: what is drawn, who sees what, what is kept, and who is let in."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("scipy")

import urllib.error
import urllib.request

from headrace.quality.reviews import Review, ReviewStore
from headrace.quality.spotcheck import review_of
from headrace.runs.pipeline import RunOptions
from headrace.runs.registry import RunFolder
from headrace.runs.reviewing import Reviewing
from headrace.testing.sim import Rule

LABELS = ["red", "green", "blue"]
URL = "http://127.0.0.1:9/v1"


def put(mill: Any, count: int = 200, **quality: Any) -> Any:
    """A finished run: a few blue, one in twenty of no label."""
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(count)])
    mill.put_job(URL, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, quality={"sample": 40, **quality})
    table = {f"row {n}.": "blue" if n % 40 == 1 else LABELS[n % 2] for n in range(count)}
    rules = [Rule(match=f"row {n}.", content="no label") for n in range(0, count, 20)]
    return mill.rehearse(*rules, answer="label", table=table).result


@contextmanager
def served(mill: Any, *options: str) -> Iterator[str]:
    """The page's address, with its token."""
    process = mill.start("review", "--no-browser", *options)
    try:
        line = process.stderr.readline()
        yield line.split()[0]
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "Traceback" not in err
        mill.said = out


def asked(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            text = reply.read().decode()
            return reply.status, json.loads(text) if "json" in reply.headers["content-type"] else text
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_sample_is_the_same_with_each_command_and_grows_with_the_run(mill: Any) -> None:
    folder = RunFolder(put(mill).folder)
    one, other = Reviewing(folder), Reviewing(folder)
    try:
        assert one.sample.items == other.sample.items
        assert len(one.sample.items) == 40
        assert one.sample.population == 190
        assert len(one.failed) == 10
    finally:
        one.close()
        other.close()
    few = {item for item in one.sample.items if item < 100}
    put(mill, 200, sample=100)
    mill.put_job(URL, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, quality={"sample": 100})
    mill.rehearse(options=RunOptions(new=True), answer="label")
    more = Reviewing(RunFolder(mill.runs[-1]))
    more.close()
    assert few <= set(more.sample.items)


def test_rare_answers_are_drawn_more_often_and_weigh_what_they_are(mill: Any) -> None:
    folder = RunFolder(put(mill, stratify="answer", sample=30).folder)
    reviewing = Reviewing(folder)
    reviewing.close()
    assert reviewing.sample.sizes == {'"red"': 90, '"green"': 95, '"blue"': 5}
    blue = [item for item in reviewing.sample.items if reviewing.sample.strata[item] == '"blue"']
    assert len(blue) == 5
    store = ReviewStore(folder.path, writable=True)
    store.put_sizes(reviewing.sample.sizes)
    for item in reviewing.sample.items:
        stratum = reviewing.sample.strata[item]
        store.add(Review("ann", item, "reject" if stratum == '"blue"' else "accept", stratum), 1.0)
    store.close()
    found = review_of(folder.path, 0.5)
    assert found is not None
    assert (found["reviewed"], found["accepted"]) == (30, 25)
    assert found["share"] == pytest.approx(185 / 190)
    assert found["strata"]['"blue"']["share"] == 0.0
    assert found["level"]["verdict"] == "accepted"
    assert mill.command("report", "--to", "page.html").code == 0
    page = (mill.folder / "page.html").read_text()
    assert "Is it right? The spot check" in page
    assert "97.4% of the answers are right" in page
    quality = mill.status()["quality"]
    assert (quality["reviewed"], quality["accepted"]) == (30, 25)
    assert quality["interval"][0] < 185 / 190 < quality["interval"][1]


@pytest.mark.slow
def test_verdicts_are_kept_corrected_exported_and_taken_back(mill: Any) -> None:
    put(mill)
    with served(mill) as address:
        status, page = asked(address, "")
        assert status == 200
        assert "<script src" in page
        _, first = asked(address, "api/next?reviewer=ann")
        assert first["next"]["record"]["text"] == f"row {first['next']['item']}."
        item = first["next"]["item"]
        _, second = asked(address, "api/verdict", {"reviewer": "ann", "item": item, "verdict": "accept", "note": "fine \ud800"})
        assert second["progress"] == {"mine": 1, "seen": 1, "total": 40}
        wrong = second["next"]["item"]
        asked(
            address, "api/verdict", {"reviewer": "ann", "item": wrong, "verdict": "correct", "correction": "red", "note": "why"}
        )
        _, back = asked(address, "api/undo", {"reviewer": "ann"})
        assert (back["next"]["item"], back["written"]) == (wrong, {"note": "why", "correction": "red"})
        asked(address, "api/verdict", {"reviewer": "ann", "item": wrong, "verdict": "correct", "correction": "blue"})
        assert asked(address, "api/failed")[1]["items"] == list(range(0, 200, 20))
        failed = asked(address, "api/item?item=20")[1]["next"]
        assert (failed["status"], failed["raw"]) == ("quarantined", "no label")
        refused: list[Any] = [
            {"reviewer": "ann", "item": 10**9, "verdict": "accept"},
            {"reviewer": "ann", "item": item, "verdict": "maybe"},
            {"reviewer": "ann", "item": wrong, "verdict": "correct"},
            {"reviewer": "ann", "item": wrong, "verdict": "correct", "correction": "bluered"},  # no label of the job
            {"reviewer": "ann", "item": wrong, "verdict": "correct", "correction": ["blue"]},
            {"reviewer": "ann", "item": True, "verdict": "accept"},
            [],
            b"{",
        ]
        for bad in refused:
            assert asked(address, "api/verdict", bad)[0] == 400
    assert "reviewed  2 items of 190, 0 skipped" in mill.said
    assert mill.command("review", "--export", "golden.jsonl").code == 0
    told = mill.command("review", "--export", "golden.jsonl")
    assert (told.code, "is there already" in told.err) == (2, True)  # somebody may have worked on it
    rows = {row["id"]: row["expected"] for row in mill.rows(mill.folder / "golden.jsonl")}
    assert rows[f"r{wrong}"] == "blue"
    assert len(rows) == 2
    assert json.loads(mill.command("review", "--json").out)["corrected"] == 1
    with served(mill) as address:  # another day
        assert asked(address, "api/next?reviewer=ann")[1]["progress"]["mine"] == 2


@pytest.mark.slow
def test_two_reviewers_share_a_part_and_nothing_else(mill: Any) -> None:
    put(mill)
    seen: dict[str, list[int]] = {"ann": [], "bob": []}
    with served(mill) as address:
        following = {name: asked(address, f"api/next?reviewer={name}")[1]["next"] for name in seen}
        while any(following.values()):
            for name, item in following.items():
                if item is not None:
                    seen[name].append(item["item"])
                    verdict = "reject" if name == "bob" and len(seen[name]) in {1, 2} else "accept"
                    given = {"reviewer": name, "item": item["item"], "verdict": verdict}
                    following[name] = asked(address, "api/verdict", given)[1]["next"]
    assert len(set(seen["ann"]) & set(seen["bob"])) == 10
    assert len(set(seen["ann"]) | set(seen["bob"])) == 40
    found = json.loads(mill.command("review", "--json").out)
    (agreed,) = found["agreement"]
    assert (agreed["n"], agreed["agree"], agreed["accepts"]) == (10, 0.8, [1.0, 0.8])
    assert found["reviewed"] == 40


@pytest.mark.slow
def test_who_has_no_token_or_comes_from_elsewhere_is_not_let_in(mill: Any) -> None:
    put(mill, 40)
    with served(mill) as address:
        base, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/([\w-]+)/", address).groups()  # type: ignore[union-attr]
        assert asked(base + "/", "wrong/")[0] == 403
        assert asked(base + "/", f"{token[:-1]}x/api/next")[0] == 403
        assert asked(address, "api/next?reviewer=a", origin="http://evil.example")[0] == 403
        assert asked(address, "api/next?reviewer=a", host="evil.example")[0] == 403
        assert asked(address, "api/verdict", {"reviewer": "a", "item": 1, "verdict": "accept"}, origin="null")[0] == 403
        assert asked(address, "api/next?reviewer=a", origin=base)[0] == 200
        assert asked(address, "../etc/passwd")[0] in {403, 404}
        assert asked(address, "api/verdict", b"x=1", **{"content-type": "text/plain"})[0] == 400
        with urllib.request.urlopen(address, timeout=10) as reply:
            assert "default-src 'none'; script-src 'self'" in reply.headers["content-security-policy"]
    assert review_of(mill.runs[-1]) is None


@pytest.mark.slow
def test_evl_03_a_stopped_run_is_reviewed_as_far_as_it_came_failures_among_it(mill: Any) -> None:
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(60)])
    mill.put_job(URL, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, limits={"order": "input"},
                 endpoint={"concurrency": 1}, quality={"sample": 10})  # fmt: skip
    stopped = mill.rehearse(Rule(match="row 3.", content="no label"), answer="label", overrides=["limits.max_requests=30"])
    assert stopped.result.exit_code == 5
    drawn = []
    for _ in range(2):
        reviewing = Reviewing(RunFolder(stopped.result.folder))
        drawn.append(reviewing.sample.items)
        assert reviewing.failed == [3]
        assert reviewing.item(3)["error"].startswith("invalid_json")
        reviewing.close()
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 10
    assert max(drawn[0]) < 30


def test_a_review_file_is_not_torn_and_not_another_programs(mill: Any, tmp_path: Any) -> None:
    store = ReviewStore(tmp_path, writable=True)
    store.add(Review("a", 1, "accept"), 1.0)
    again = ReviewStore(tmp_path, writable=True)  # a second tab's server
    again.add(Review("a", 1, "reject"), 2.0)
    assert [review.verdict for review in store.all()] == ["reject"]
    taken_back = again.undo("a")
    assert taken_back is not None
    assert (taken_back.item, [review.verdict for review in store.all()]) == (1, ["accept"])
    assert store.undo("a") is not None
    assert (store.undo("a"), store.undo("b")) == (None, None)
    store.close()
    again.close()
    db = sqlite3.connect(tmp_path / "review.db")
    assert db.execute("SELECT count(*) FROM review").fetchone() == (2,)  # nothing is ever removed
    db.close()
    assert mill.command("review", "--level", "2").code == 2


def test_how_many_to_look_at_for_a_margin(mill: Any) -> None:
    put(mill)
    told = mill.command("review", "--margin", "0.05")
    assert (told.code, told.out) == (0, "128 items of 190 for ± 5.0% at 95 %, whatever the share: quality.sample = 128\n")
    assert mill.command("review", "--margin", "0.05", "--json").document == {"population": 190, "margin": 0.05, "sample": 128}
    assert mill.command("review", "--margin", "1").err.count("\n") == 1
