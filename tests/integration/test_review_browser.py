"""A reviewer at the keyboard, in headless Chromium that is driven over its DevTools socket."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

pytest.importorskip("scipy")

from headrace.quality.reviews import ReviewStore
from headrace.quality.spotcheck import review_of
from headrace.runs.registry import RunFolder
from headrace.runs.reviewing import Reviewing, export_reviewed
from headrace.testing.sim import Rule
from headrace.web.review import ReviewPage, serve

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "headless-shell"))), None)
HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
KEYS = {"Escape": 27, "Enter": 13, "/": 191}


class Tab:
    """One page; commands go over one socket, one after the other."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._socket = socket
        self._session = session
        self._number = 0
        self.requests: list[str] = []

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "sessionId": self._session, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(timeout=30)).data)
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message.get("id") == self._number and message.get("sessionId") == self._session:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    async def value(self, expression: str) -> Any:
        found = await self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The first value of it that is true."""
        return await self.value(
            "new Promise((resolve, reject) => { let left = 400; const look = () => { let found; "
            f"try {{ found = ({expression}); }} catch (error) {{ found = null; }} "
            "if (found) resolve(found); else if (!(left -= 1)) reject(new Error('never: ' + document.body.innerText)); "
            "else setTimeout(look, 25); }; look(); })"
        )

    async def open(self, address: str) -> None:
        await self.command("Page.navigate", url=address)
        await self.until("document.body && document.body.dataset.item !== undefined")

    async def key(self, key: str, modifiers: int = 0) -> None:
        text = {} if len(key) > 1 or modifiers else {"text": key}
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("keyDown", "keyUp"):
            await self.command(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    async def type(self, text: str) -> None:
        await self.command("Input.insertText", text=text)

    async def item(self) -> str:
        found: str = await self.value("document.body.dataset.item")
        return found

    async def judge(self, key: str) -> None:
        before = await self.item()
        await self.key(key)
        await self.until(f"document.body.dataset.item !== {json.dumps(before)}")


@pytest.fixture
def devtools(tmp_path: Path, until: Any) -> Iterator[str]:
    """The address of a browser's DevTools socket."""
    assert BROWSER is not None
    profile = tmp_path / "profile"
    process = subprocess.Popen(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
         "--no-first-run", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        told = profile / "DevToolsActivePort"
        port, path = until(lambda: told.read_text().splitlines() if told.exists() and "/" in told.read_text() else None)
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def opened(socket: aiohttp.ClientWebSocketResponse) -> Tab:
    """A new tab."""

    async def ask(number: int, method: str, **parameters: Any) -> Any:
        await socket.send_json({"id": number, "method": method, "params": parameters})
        while (message := json.loads((await socket.receive(timeout=30)).data)).get("id") != number:
            pass
        return message["result"]

    target = (await ask(900_001, "Target.createTarget", url="about:blank"))["targetId"]
    session = (await ask(900_002, "Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    tab = Tab(socket, session)
    await tab.command("Network.enable")
    return tab


@pytest.fixture
def reviewed(mill: Any) -> Any:
    """A run of forty long records; one answer of four is a page that would act."""
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}. " + "a long text about needles and hay " * 300} for n in range(40)])
    mill.put_job("http://127.0.0.1:9/v1", input={"id": "id"}, model={"name": "sim"}, quality={"sample": 40})
    rules = [Rule(match=f"row {n}.", content=f"{HOSTILE} {n}") for n in range(0, 40, 4)]
    return RunFolder(mill.rehearse(*rules, answer="text:fine").result.folder)


@asynccontextmanager
async def page_of(folder: RunFolder) -> AsyncIterator[str]:
    reviewing, store = Reviewing(folder), ReviewStore(folder.path, writable=True)
    store.put_sizes(reviewing.sample.sizes)
    runner, address = await serve(ReviewPage(reviewing, store), 0)
    try:
        yield address
    finally:
        await runner.cleanup()
        store.close()
        reviewing.close()


async def by_keyboard(folder: RunFolder, devtools: str) -> None:
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(devtools, max_msg_size=0) as socket,
        page_of(folder) as address,
    ):
        ann = await opened(socket)
        await ann.open(f"{address}?reviewer=ann")
        for number in range(30):
            if number in {7, 19}:  # in between the page is loaded anew: nothing is lost
                await ann.open(f"{address}?reviewer=ann")
            if number == 3:
                await ann.key("n")
                await ann.type("kept over a reload")
                await ann.open(f"{address}?reviewer=ann")
                assert await ann.value("document.getElementById('note').value") == "kept over a reload"
            if number == 5:
                await ann.key("c")
                await ann.value("document.getElementById('correction').value = ''")
                await ann.type("what it should be")
                before = await ann.item()
                await ann.key("Enter", modifiers=2)
                await ann.until(f"document.body.dataset.item !== {json.dumps(before)}")
            else:
                await ann.judge("r" if number in {1, 2} else "s" if number == 4 else "a")
        assert (await ann.value("document.getElementById('progress').textContent")).startswith("30 by you, 30 of 40 seen")
        await ann.key("u")
        await ann.until("document.getElementById('progress').textContent.startsWith('29 by you')")
        await ann.judge("a")
        await ann.key("/")
        await ann.type("needles")
        assert await ann.until("document.querySelectorAll('mark').length") == 300
        assert await ann.value("document.getElementById('hits').textContent") == "300 found"
        assert await ann.value("document.activeElement.id") == "search"
        await ann.key("Escape")
        assert await ann.value("document.activeElement.id") == "item"
        bob = await opened(socket)
        await bob.open(f"{address}?reviewer=bob")
        for _ in range(5):
            await bob.judge("r")
        assert await ann.value("window.pwned === undefined && document.querySelectorAll('main script, main img').length === 0")
        assert [url for url in ann.requests + bob.requests if not url.startswith(address)] == []


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
def test_thirty_items_by_keyboard(reviewed: RunFolder, devtools: str, tmp_path: Path) -> None:
    asyncio.run(by_keyboard(reviewed, devtools))
    found = review_of(reviewed.path)
    assert found is not None
    assert (found["corrected"], found["skipped"], found["reviewed"]) == (1, 1, 30)  # what she skipped, he rejected
    (agreed,) = found["agreement"]
    assert agreed["reviewers"] == ["ann", "bob"]
    assert agreed["agree"] < 1
    count = export_reviewed(reviewed, tmp_path / "golden.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "golden.jsonl").read_text().splitlines()]
    assert count == len(rows) > 20
    assert [row["expected"] for row in rows].count("what it should be") == 1
