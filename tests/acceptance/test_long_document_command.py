"""One long document, divided, reduced and killed in between: the answer is the one that an untroubled run gives."""

from __future__ import annotations

import pytest

SIZE = 300_000
SPLIT = {"size": "2000 chars", "overlap": "100 chars", "join": {"prompt": "Join: {% for a in answers %}[{{ a }}] {% endfor %}"}}
SIM = ("--latency-ms", "60", "--answer", "echo:300", "--slots", "8")


def document(size):
    text, number = [], 0
    while sum(map(len, text[-1000:])) + 45 * max(0, len(text) - 1000) < size:
        number += 1
        text.append(f"Sentence {number} tells what it is that {number * 7919 % 10007} means. ")
    return "".join(text)[:size]


def put(mill, url):
    mill.put_job(url, input={"id": "id"}, slice={"split": SPLIT}, endpoint={"concurrency": 8, "identity": "sim"})


@pytest.mark.slow
def test_killed_twice_a_long_document_comes_to_the_same_answer(mill, until):
    mill.put_rows([{"id": "long", "text": document(SIZE)}, {"id": "short", "text": "A short one."}])
    with mill.sim(*SIM) as sim:
        put(mill, sim.url)
        told = mill.run("--new")
        assert told.code == 0
        untroubled, units = mill.answers(), told.document["units"]["total"]
        pieces, joins = told.document["slices"]["pieces"], told.document["slices"]["joins"]
        assert pieces > 140
        assert joins > 20
        mill.output.unlink()
        sim.reset()
        for mark, more in ((pieces // 2, ("--new",)), (pieces + joins // 3, ())):  # among the pieces, and among what joins them
            process = mill.start("run", "job.toml", "--quiet", *more)
            until(lambda mark=mark: sim.stats()["prompts"] >= mark)
            process.kill()
            mill.told(process)
        status = mill.status()
        assert status["state"] == "interrupted"
        assert status["slices"]["joins"] > 0
        done = status["items"]["done"]  # the short one may come last, but the long one cannot be there
        assert done in {0, 1}
        assert status["items"] == {"total": 2, "done": done, "failed": 0, "quarantined": 0, "rejected": 0, "pending": 2 - done}
        told = mill.run()
        seen = sim.stats()
    assert told.code == 0
    assert told.document["units"]["total"] == seen["prompts"] == units
    assert seen["requests"] <= units + 2 * (8 + 14)  # what was in flight, and what was answered in the last tenth of a second
    assert mill.answers() == untroubled
