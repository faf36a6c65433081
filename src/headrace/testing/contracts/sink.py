"""What every Sink keeps, as tests: derive from `SinkContract`, say how to open and read one, and run it under pytest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.errors import OutputError
from headrace.protocols import Row, Sink
from headrace.sinks.row import OutputRow

ODD_TEXTS = (
    "",
    "plain",
    "é ü 漢字 🙂",
    'quotes " and , and ; and \\ and \t',
    "line\nfeed, carriage\rreturn, both\r\n",
    "NUL \x00 and other controls \x01\x1b\x7f\x85",
    "separators \u2028 and \u2029",
    "lone \ud800 surrogate \udfff",
    "\ufeffBOM first",
    "=1+2",
    "\N{NO-BREAK SPACE} spaces at the ends ",
)
IDS = ("007", "12", "", "9007199254740993")


class UnspeakableError(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class SinkContract:
    """`suffix` names the files. `open` gets the rows that will follow, so that columns can be found; `read` gives them back."""

    suffix: ClassVar[str]

    def open(self, path: Path, rows: Sequence[Row]) -> Sink:
        raise NotImplementedError

    def read(self, path: Path) -> list[dict[str, Any]]:
        raise NotImplementedError

    def shown(self, value: Any, *, uniform: bool = True) -> Any:
        """How a JSON value reads back; `uniform`: all values of its column are of its type."""
        raise NotImplementedError

    def written(self, path: Path, rows: Sequence[Row]) -> list[dict[str, Any]]:
        sink = self.open(path, rows)
        for at in range(0, len(rows), 7):
            sink.write(rows[at : at + 7])
        sink.close()
        return self.read(path)

    def test_each_row_in_gives_one_row_out_in_order(self, tmp_path: Path) -> None:
        rows = [row({"n": n}, answer(f"answer {n}")) for n in range(100)]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert found == [
            {"n": self.shown(n), **{name: self.shown(value) for name, value in answer(f"answer {n}").items()}} for n in range(100)
        ]

    def test_no_row_at_all_is_a_readable_file(self, tmp_path: Path) -> None:
        assert self.written(tmp_path / f"out{self.suffix}", []) == []

    def test_the_path_is_untouched_until_close(self, tmp_path: Path) -> None:
        path = tmp_path / f"out{self.suffix}"
        path.write_bytes(b"old")
        rows = [row({"n": 1}, answer("x"))]
        sink = self.open(path, rows)
        sink.write(rows)
        assert path.read_bytes() == b"old"
        sink.close()
        assert [found["answer"] for found in self.read(path)] == ["x"]
        assert names(tmp_path) == [path.name]

    def test_abort_leaves_nothing_behind(self, tmp_path: Path) -> None:
        path = tmp_path / f"out{self.suffix}"
        rows = [row({"n": 1}, answer("x"))]
        for _ in range(2):  # first without a file there, then with one
            before = names(tmp_path)
            sink = self.open(path, rows)
            sink.write(rows)
            sink.abort()
            sink.abort()
            sink.close()
            assert names(tmp_path) == before
            path.write_bytes(b"old")
        assert path.read_bytes() == b"old"

    def test_after_close_neither_close_nor_abort_changes_anything(self, tmp_path: Path) -> None:
        path = tmp_path / f"out{self.suffix}"
        rows = [row({"n": 1}, answer("x"))]
        sink = self.open(path, rows)
        sink.write(rows)
        sink.close()
        before = path.read_bytes()
        sink.close()
        sink.abort()
        with pytest.raises(OutputError, match="closed"):
            sink.write(rows)
        assert path.read_bytes() == before

    def test_missing_folders_are_created(self, tmp_path: Path) -> None:
        assert self.written(tmp_path / "a" / "b" / f"out{self.suffix}", [row({}, answer("x"))])

    def test_a_place_that_cannot_be_written_is_an_output_error_with_the_path(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        path = tmp_path / "file" / f"out{self.suffix}"
        with pytest.raises(OutputError) as caught:
            self.open(path, [])
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_folder_at_the_path_is_refused_before_any_row(self, tmp_path: Path) -> None:
        path = tmp_path / f"out{self.suffix}"
        path.mkdir()
        with pytest.raises(OutputError, match="is a folder"):
            self.open(path, [])

    def test_odd_text_comes_back(self, tmp_path: Path) -> None:
        rows = [row({"text": text}, answer(text)) for text in ODD_TEXTS]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [one["text"] for one in found] == [self.shown(text) for text in ODD_TEXTS]
        assert [one["answer"] for one in found] == [self.shown(text) for text in ODD_TEXTS]

    @pytest.mark.slow
    def test_a_cell_of_ten_megabytes_comes_back(self, tmp_path: Path) -> None:
        text = 'ab"é\n' * 2_000_000
        (found,) = self.written(tmp_path / f"out{self.suffix}", [row({"text": text}, answer(text))])
        assert found["text"] == text
        assert found["answer"] == text

    def test_odd_field_names_come_back(self, tmp_path: Path) -> None:
        fields = {'a "b", c': 1, "": 2, "é\n": 3, "\x00": 4}
        (found,) = self.written(tmp_path / f"out{self.suffix}", [row(fields, answer("x"))])
        assert {name: found[name] for name in fields} == {name: self.shown(value) for name, value in fields.items()}

    def test_types_come_back(self, tmp_path: Path) -> None:
        columns: dict[str, list[Any]] = {
            "whole": [1, -5, None],
            "real": [0.5, 1e300, -2.25],
            "truth": [True, False, None],
            "text": ["1", "true", "null"],
            "tags": [["a", "b"], [], ["c"]],
            "none": [None, None, None],
        }
        rows = [row({name: values[n] for name, values in columns.items()}, answer("x")) for n in range(3)]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        for name, values in columns.items():
            assert [one[name] for one in found] == [self.shown(value) for value in values]

    def test_values_of_several_types_in_one_column_stay_exact(self, tmp_path: Path) -> None:
        values = ["x", 1, 2.5, True, None, {"a": [1, None]}, [], "1", 10**30, [["nested"]]]
        found = self.written(tmp_path / f"out{self.suffix}", [row({"v": value}, answer(value)) for value in values])
        for name in ("v", "answer"):
            assert [one[name] for one in found] == [self.shown(value, uniform=False) for value in values]

    def test_an_unreadable_record_and_an_empty_object_are_rows_too(self, tmp_path: Path) -> None:
        rows = [
            row({"n": 1}, answer("x")),
            row({}, answer(None)),
            OutputRow(None, answer(None)),
            OutputRow(b" { } ", answer("y")),
        ]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [one["answer"] for one in found] == ["x", self.shown(None), self.shown(None), "y"]

    def test_an_answer_given_as_json_text_reads_as_its_value(self, tmp_path: Path) -> None:
        values: list[Any] = [{"label": "ü \u2028", "n": [1.50, 2]}, "text", None, 3]
        texts = [json.dumps(value, ensure_ascii=False, indent=1).encode() for value in values]
        rows = [OutputRow(b'{"n": 1}', answer(None), text) for text in texts]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [loosely(one["answer"]) for one in found] == [loosely(self.shown(value, uniform=False)) for value in values]
        assert [one["answer_status"] for one in found] == ["failed"] * 4

    def test_OUT_05_failed_rows_first_and_answers_of_varying_shape_after(self, tmp_path: Path) -> None:  # noqa: N802 - a case's id
        shapes: list[Any] = [{"a": 1}, {"b": {"c": []}}, [1, "x"], "text", 7, {}]
        values = [None] * 100 + [shapes[n % len(shapes)] for n in range(100)]
        rows = [row({"n": n}, answer(value)) for n, value in enumerate(values)]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [one["answer"] for one in found] == [self.shown(value, uniform=False) for value in values]
        assert {tuple(one) for one in found} == {("n", "answer", "answer_status", "answer_error", "answer_notes")}

    def test_OUT_06_no_content_makes_the_writer_raise(self, tmp_path: Path) -> None:  # noqa: N802 - a case's id
        cyclic: dict[str, Any] = {}
        cyclic["self"] = cyclic
        cause = ValueError("cause")
        cause.__cause__ = cause
        odd: list[Any] = [
            Exception(b"\xff bytes"),
            Exception("\udcff not UTF-8"),
            cause,
            UnspeakableError(),
            cyclic,
            float("nan"),
            float("inf"),
            b"\xff\x00",
            {b"bytes": 1, 2: 3},
            10**5000,
            {1, 2},
            Path("p"),
        ]
        rows = [row({"n": n}, {**answer(None), "answer_error": value}) for n, value in enumerate(odd)]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [one["n"] for one in found] == [self.shown(n) for n in range(len(odd))]
        assert "\\xff bytes" in found[0]["answer_error"]
        assert "not UTF-8" in found[1]["answer_error"]
        assert found[2]["answer_error"] == "cause"
        assert found[3]["answer_error"] == "<UnspeakableError>"

    def test_INP_08_identifiers_stay_the_tokens_that_they_were(self, tmp_path: Path) -> None:  # noqa: N802 - a case's id
        number = 9007199254740993
        rows = [row({"text_id": text, "number_id": number if text else None}, answer("x")) for text in IDS]
        found = self.written(tmp_path / f"out{self.suffix}", rows)
        assert [one["text_id"] for one in found] == list(IDS)
        assert [one["number_id"] for one in found] == [self.shown(number if text else None) for text in IDS]


def row(fields: dict[str, Any], answers: dict[str, Any]) -> OutputRow:
    """A row whose input record has these fields."""
    return OutputRow(json.dumps(fields, separators=(",", ":")).encode("ascii"), answers)


def answer(value: Any) -> dict[str, Any]:
    """Our fields, done unless there is no value."""
    failed = value is None
    return {
        "answer": value,
        "answer_status": "failed" if failed else "done",
        "answer_error": "timeout: no reply" if failed else None,
        "answer_notes": [] if failed else ["input_cut"],
    }


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def loosely(value: Any) -> Any:
    """A value, or the value that a JSON text stands for: its white space is the writer's business."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def compact(value: Any) -> str:
    """JSON text without spaces, as `row` and the sinks write it: what a format that holds only text shows."""
    return json.dumps(value, separators=(",", ":"))


def utf8(values: Iterable[str]) -> list[str]:
    """Texts as UTF-8 can hold them: a lone surrogate as its escape."""
    return [value.encode("utf-8", "backslashreplace").decode("utf-8") for value in values]
