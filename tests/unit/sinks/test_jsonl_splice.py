"""Many rows spliced at once are the lines that each would be alone."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.sinks.encoding import encode_answers
from headrace.sinks.jsonl import JsonlSink, line
from headrace.sinks.row import OutputRow

RAWS = [
    None, b"", b"{", b"}", b"{}", b"{ }", b"{\n}", b"{ \r\n}", b"[1]", b'"x"', b"{}}",
    b'{"a":1}', b'{"a":1 }', b'{"a":1\t}', b' {"a":1}', b'{"a":1}\r', b'{"a":1} ', b'\xef\xbb\xbf{"a":1}', b'{"a":{}}', b'{"a":[]}',
    b'{"a":"{"}', b'{"a":\n1}', b'{\r"a":1}', b'{"a":"\xe2\x80\xa8"}', b'{"a":"\xff"}',
]  # fmt: skip
ANSWERS = [{}, {"answer": "x", "answer_error": None}, {"answer": "\u2028 \ud800"}]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(st.builds(OutputRow, st.sampled_from(RAWS), st.sampled_from(ANSWERS)), max_size=12))
def test_spliced_rows_are_the_lines_of_written_ones(tmp_path: Path, rows: list[OutputRow]) -> None:
    path = tmp_path / "out.jsonl"
    sink = JsonlSink(path)
    sink.splice([row.raw for row in rows], [encode_answers(row)[1:-1] for row in rows])
    sink.close()
    assert path.read_bytes() == b"".join(map(line, rows))
    assert path.read_bytes().count(b"\n") == sink.rows == len(rows)
