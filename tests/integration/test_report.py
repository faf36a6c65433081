"""`headrace report`: the page of a real run, read by a parser and, where there is one, by a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

HOSTILE = "<script>document.title='owned'</script><img src=http://elsewhere.invalid/x onerror=alert(1)>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "headless-shell"))), None)


class Page(HTMLParser):
    """Its elements, and the text of its table cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_cell = tag == "td"
        if self._in_cell:
            self.cells.append("")

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


def reported(mill):
    told = mill.command("report", "--to", "report.html")
    assert told.code == 0, told.err
    return (mill.folder / "report.html").read_text()


@pytest.fixture
def hostile_run(mill):
    """60 records with a hostile id, a hostile answer to some, a failure with a hostile message."""
    mill.put_rows([{"id": f"{HOSTILE}{n}", "text": f"row {n}."} for n in range(60)])
    script = [
        {"match": "row 7.", "status": 400, "body": {"error": {"message": f"no {HOSTILE}"}}},
        {"match": "row 1", "content": HOSTILE},
        {"content": "green"},
    ]
    with mill.sim("--latency-ms", "120", "--slots", "4", script=script) as sim:
        mill.put_job(sim.url, name="job.toml", input={"id": "id"}, model={"name": "sim"}, endpoint={"concurrency": 2})
        assert mill.run().code == 3
    return mill


@pytest.mark.slow
def test_the_page_holds_charts_with_their_numbers_and_nothing_that_acts(hostile_run):
    text = reported(hostile_run)
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert not {"script", "img", "link", "iframe", "object", "image"}.intersection(tags)
    assert tags.count("svg") >= 6
    assert not [
        attributes for _, attributes in page.tags if any(name.startswith("on") or name in {"src", "href"} for name in attributes)
    ]
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    for title in (
        "Throughput",
        "How long answers took",
        "Slowest answers",
        "Context lengths",
        "Tokens and cost",
        "Answers",
        "Configuration",
    ):
        assert title in titles
    assert HOSTILE in page.cells  # as text: the answer in its table
    assert [cell for cell in page.cells if cell.startswith("green")]
    assert "bad_request" in page.cells
    assert "endpoint.concurrency" in page.cells
    assert "default-src 'none'" in text
    assert {"48", "11"} <= set(page.cells)  # green, and the eleven whose text has "row 1"


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_draws_it_and_asks_for_nothing(hostile_run):
    reported(hostile_run)
    path = hostile_run.folder / "report.html"
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={hostile_run.folder / 'browser'}",
        f"--log-net-log={hostile_run.folder / 'net.json'}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "<svg" in done.stdout
    assert "<title>owned" not in done.stdout
    assert "elsewhere.invalid" not in (hostile_run.folder / "net.json").read_text(errors="replace")


@pytest.mark.slow
def test_a_run_without_any_answer_has_a_page_too(mill):
    mill.put_texts(3)
    with mill.sim(script=[{"status": 400}]) as sim:
        mill.put_job(sim.url, model={"name": "sim"})
        assert mill.run().code == 4
    text = reported(mill)
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert "Configuration" in titles
    assert "Sends that brought no accepted answer" in titles
    assert not {"How long answers took", "Slowest answers", "Context lengths", "Answers", "Lengths of answers"}.intersection(
        titles
    )


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_one_line(mill):
    mill.put_texts(1)
    with mill.sim() as sim:
        mill.put_job(sim.url, model={"name": "sim"})
        assert mill.run().code == 0
    told = mill.command("report", "--to", "nowhere/report.html")
    assert told.code == 7
    assert told.err.count("\n") == 1
    assert "cannot be written" in told.err


def test_a_page_replaces_pages_alone(mill):
    mill.put_texts(20)
    mill.put_job("http://127.0.0.1:9/v1")
    mill.rehearse()
    ledger = mill.runs[0] / "ledger.db"
    for precious in (ledger, mill.runs[0] / "run.json", mill.output):
        before = precious.read_bytes()
        told = mill.command("report", "--to", str(precious))
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert "is there and is no page" in told.err
        assert precious.read_bytes() == before
    reported(mill)
    reported(mill)
