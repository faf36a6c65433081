"""saturate 0.2.0 with its self-tuning window, over the same records. `python saturate.py URL COUNT auto RECORDS OUT`."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from saturate import Auto, Fixed, pump

url, count, concurrency, source, out = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]


def rows() -> Iterator[dict[str, Any]]:
    with Path(source).open(encoding="utf-8") as file:
        for line in itertools.islice(file, count):
            yield json.loads(line)


def to_request(row: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": row["text"]}]}


def parse(row: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    return {"name": row["name"], "answer": reply["choices"][0]["message"]["content"]}


pump(rows(), to_request, parse, url, out, window=Auto() if concurrency == "auto" else Fixed(int(concurrency)), flush_every=100)
