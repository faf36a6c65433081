"""Never run: the type checker must accept how the public names are used."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import headrace
from headrace.protocols import Observer


def observer(event: object) -> None: ...


def sync(path: Path) -> None:
    result = headrace.run(path)
    assert_type(result, headrace.Result)
    assert_type(result.exit_code, int)
    assert_type(result.path, Path | None)
    for record in result:
        print(record["answer_status"])
    headrace.run("job.toml", new=True, reuse="last", overrides=["model.temperature=0"])
    headrace.run({"input": {"path": "x.jsonl"}})
    headrace.run("job.toml", fresh=True)  # type: ignore[call-arg]  # a keyword that there is not
    headrace.Job(inputs={"path": "x.jsonl"})  # type: ignore[call-arg]  # a section that there is not
    headrace.run(headrace.Job(base=path, input={"path": "x.jsonl"}))


async def inside_a_loop() -> None:
    watching: Observer = observer
    result = await headrace.arun("job.toml", observers=[watching], run_dir=Path("runs"))
    assert_type(result.run, str)


def errors() -> None:
    try:
        headrace.run("job.toml")
    except headrace.SpecError as error:
        assert_type(error.key, str | None)
    except (headrace.InputError, headrace.LedgerError) as error:
        assert_type(error.exit_code, int)
