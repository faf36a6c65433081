"""Every form of input runs the one suite."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from headrace.testing.contracts.source import SourceContract

Records = Sequence[dict[str, str]]


def lines(records: Records) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


class TestLines(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.jsonl").write_bytes(lines(records))
        return "in.jsonl"


class TestPackedLines(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.ndjson.gz").write_bytes(gzip.compress(lines(records), mtime=0))
        return "in.ndjson.gz"


class TestLinesNamedJson(SourceContract):
    may_be_empty = False

    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.json").write_bytes(lines(records))
        return "in.json"


class TestArray(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.json").write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
        return "in.json"


class TestIndentedArray(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        text = json.dumps(records, indent=2).replace("\n", "\r\n")
        (folder / "in.json").write_bytes(b"\xef\xbb\xbf \n" + text.encode() + b"\n")
        return "in.json"


class TestPackedArray(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.json.zst").write_bytes(zstandard.compress(json.dumps(records).encode()))
        return "in.json.zst"


class TestArrayInUtf16(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.json").write_bytes(json.dumps(records, ensure_ascii=False).encode("utf-16"))
        return "in.json"


class TestArrayInAnObject(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        (folder / "in.json").write_text(json.dumps({"data": records}), encoding="utf-8")
        return "in.json"


class TestOneJsonObjectAFile(SourceContract):
    may_be_empty = False

    def put(self, folder: Path, records: Records) -> str:
        for record in records:
            (folder / f"{record['n']}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return "*.json"


class TestCsv(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        text = io.StringIO(newline="")
        rows = csv.writer(text)
        rows.writerows([["n", "text"], *([record["n"], record["text"]] for record in records)])
        (folder / "in.csv").write_bytes(text.getvalue().encode())
        return "in.csv"


class TestParquet(SourceContract):
    def put(self, folder: Path, records: Records) -> str:
        columns = {name: pa.array([record[name] for record in records], pa.string()) for name in ("n", "text")}
        pq.write_table(pa.table(columns), folder / "in.parquet", row_group_size=3)
        return "in.parquet"


class TestFolder(SourceContract):
    may_be_empty = False

    def put(self, folder: Path, records: Records) -> str:
        (folder / "texts" / "more").mkdir(parents=True, exist_ok=True)
        for record in records:
            (folder / "texts" / self.name(record)).write_bytes(record["text"].encode())
        return "texts"

    def name(self, record: dict[str, str]) -> str:
        # In byte order; the new one comes last.
        return f"more/{record['n']}.txt"

    def shown(self, record: dict[str, str]) -> dict[str, Any]:
        return {"path": self.name(record), "text": record["text"]}


class TestSqlite(SourceContract):
    query = "SELECT n, text FROM articles ORDER BY rowid"

    def put(self, folder: Path, records: Records) -> str:
        connection = sqlite3.connect(folder / "in.db")
        connection.execute("CREATE TABLE articles (n TEXT, text TEXT)")
        connection.executemany("INSERT INTO articles VALUES (:n, :text)", records)
        connection.commit()
        connection.close()
        return "sqlite:///in.db"


class TestFilesOfSeveralKinds(SourceContract):
    may_be_empty = False

    def put(self, folder: Path, records: Records) -> str:
        third = len(records) // 3
        (folder / "a.json").write_text(json.dumps(records[:third]), encoding="utf-8")
        (folder / "b.jsonl").write_bytes(lines(records[third : 2 * third]))
        (folder / "c.json").write_bytes(json.dumps({"rest": records[2 * third :]}).encode())
        return "*"
