"""What the bench runs: generated records, all distinct, and the job over them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

PROSE = (
    "the a library for reading writing and converting images with support many formats this package contains shared files "
    "needed by programs that use it game engine where player explores caverns collects gems avoids monsters network daemon "
    "which serves requests over sockets scientific computing matrix solver plugin browser desktop theme icons fonts kernel "
    "module driver audio video codec editor terminal shell compiler debugger naïve café documentation examples tests"
)
WORDS = PROSE.split()
CATEGORIES = ("games", "science", "web", "graphics", "sound", "libraries", "admin", "other")
PROMPT = "Sort this Debian package into one category, and say how sure you are.\\n\\nName: {{ name }}\\n\\n{{ text }}"
JOB = """\
name = "bench"

[input]
path = "records.jsonl"
id = "name"

[prompt]
system = "You sort Debian packages."
user = "%(prompt)s"

[model]
name = "m"
temperature = 0
max_tokens = 64

[endpoint]
url = "%(url)s"
concurrency = %(concurrency)d

[answer.schema]
type = "object"
properties = { category = { type = "string", enum = %(categories)s }, confidence = { type = "number" } }
required = ["category", "confidence"]
additionalProperties = false

[output]
path = "%(output)s"
"""


def records(size: int) -> Iterator[str]:
    """Lines of about `size` bytes, without end: a field `name` and a field `text`. Distinct, and equal in every run."""
    rng = random.Random(7)
    paragraphs = [" ".join(rng.choices(WORDS, k=size // 6))[: size - 100] for _ in range(200)]
    texts = [json.dumps(text, ensure_ascii=False)[1:-1] for text in paragraphs]
    number = 0
    while True:
        text = texts[number % 200]
        yield f'{{"name": "package-{number:08d}", "id": "{number}", "section": "misc", "text": "{number} {text}"}}\n'
        number += 1


def write_records(path: Path, count: int, size: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        lines = records(size)
        for first in range(0, count, 1000):
            file.write("".join(islice(lines, min(1000, count - first))))


def write_job(folder: Path, url: str, *, concurrency: int = 64, output: str = "answers.jsonl") -> Path:
    """Write the job file beside `records.jsonl`; returns its path. `output` is a name in the same folder."""
    path = folder / "job.toml"
    values = {
        "prompt": PROMPT, "url": url, "concurrency": concurrency, "output": output, "categories": json.dumps(CATEGORIES),
    }  # fmt: skip
    path.write_text(JOB % values, encoding="utf-8")
    return path
