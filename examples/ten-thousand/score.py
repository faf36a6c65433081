"""How many of the answers are right: `python score.py sorted.jsonl`."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

HERE = Path(__file__).parent


def truth() -> dict[str, str]:
    with (HERE / "categories.jsonl.zst").open("rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8")
        return {record["name"]: record["category"] for record in map(json.loads, lines)}


def records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("which output? python score.py sorted.jsonl")
    categories = truth()
    asked = [record for record in records(Path(sys.argv[1])) if record["answer_status"] != "pending"]
    right = sum(record["answer"] == categories[record["name"]] for record in asked)
    ((largest, count),) = Counter(categories[record["name"]] for record in asked).most_common(1)
    print(f"{right:,} of {len(asked):,} right: {right / len(asked):.3f}; always {largest!r} would be {count / len(asked):.3f}")


if __name__ == "__main__":
    main()
