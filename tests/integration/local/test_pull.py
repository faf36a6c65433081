"""`headrace local pull`, against a hub and a storage host on loopback: checked, resumed, whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DiskError, FetchError, SpecError
from headrace.local import hub as module
from headrace.local.hub import Hub, pull, resolve_name
from headrace.local.weights import find_weights

REPO, COMMIT, FILE = "owner/Tiny-GGUF", "a" * 40, "tiny.Q4_K_M.gguf"
CONTENT = bytes(range(256)) * 20_000  # 5 MB
TOKEN = "hf_" + "t0k3n" * 8


class LoopbackHub:
    """Says what it has under /api, redirects downloads to a storage host of another port, and keeps what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            FILE: CONTENT,
            "README.md": b"#",
            "mmproj-f16.gguf": b"GGUF",
            "big.Q8_0.gguf": CONTENT * 2,
        }
        self.content = CONTENT
        self.cut_after: list[int] = []  # the next downloads end after so many bytes
        self.ranges = True
        self.private = False
        self.redirect = ""
        self.asked: list[tuple[str, str, str | None, str | None]] = []  # host, path, authorization, range
        self.hold = threading.Event()
        self.hold.set()
        self._servers = [self._serve("hub"), self._serve("storage")]
        self.url = f"http://127.0.0.1:{self._servers[0].server_port}"
        self.storage = f"http://127.0.0.1:{self._servers[1].server_port}"

    def listing(self) -> dict[str, Any]:
        files = [
            {"rfilename": name, "size": len(data), "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
            for name, data in self.files.items()
        ]
        return {"sha": COMMIT, "siblings": files}

    def asked_of(self, host: str) -> list[tuple[str, str | None, str | None]]:
        return [rest for name, *rest in self.asked if name == host]  # type: ignore[misc]

    def close(self) -> None:
        self.hold.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _serve(self, host: str) -> ThreadingHTTPServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((host, self.path, self.headers.get("Authorization"), self.headers.get("Range")))
                (outer._hub if host == "hub" else outer._storage)(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def _hub(self, handler: BaseHTTPRequestHandler) -> None:
        if self.private and handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            handler.send_error(401)
        elif handler.path == f"/api/models/{REPO}/revision/main?blobs=true":
            body = json.dumps(self.listing()).encode()
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        elif handler.path.startswith(f"/{REPO}/resolve/{COMMIT}/"):
            handler.send_response(302)
            handler.send_header("Location", self.redirect or f"{self.storage}/blob?Signature=s3cr3t")
            handler.end_headers()
        else:
            handler.send_error(404)

    def _storage(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        body = self.content[start:]
        handler.send_response(206 if wanted and self.ranges else 200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        cut = self.cut_after.pop(0) if self.cut_after else len(body)
        handler.wfile.write(body[:cut])
        handler.wfile.flush()
        self.hold.wait(60)
        handler.close_connection = True


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    running = LoopbackHub()
    yield running
    running.close()


@pytest.fixture
def environ(hub: LoopbackHub, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN, "NO_PROXY": "*"}


def fetch(environ: dict[str, str], repo: str = REPO, file: str | None = None) -> Path:
    there = Hub(environ)
    return pull(there, there.describe(repo, file), environ, lambda done, total: None)


def blobs(environ: dict[str, str]) -> list[str]:
    return sorted(path.name for path in (Path(environ["HF_HOME"]) / "hub" / "models--owner--Tiny-GGUF" / "blobs").iterdir())


def test_a_file_comes_whole_and_lies_as_the_hubs_own_tools_lay_it(hub: LoopbackHub, environ):
    path = fetch(environ)
    folder = Path(environ["HF_HOME"]) / "hub" / "models--owner--Tiny-GGUF"
    assert path == folder / "snapshots" / COMMIT / FILE
    assert path.read_bytes() == CONTENT
    assert path.readlink() == Path("../../blobs") / hashlib.sha256(CONTENT).hexdigest()
    assert (folder / "refs" / "main").read_text() == COMMIT
    seen = len(hub.asked)
    assert fetch(environ) == path  # only the listing is asked again
    assert len(hub.asked) == seen + 1


def test_the_token_goes_to_the_hub_alone(hub: LoopbackHub, environ):
    fetch(environ)
    assert {authorization for _, authorization, _ in hub.asked_of("hub")} == {f"Bearer {TOKEN}"}
    assert {authorization for _, authorization, _ in hub.asked_of("storage")} == {None}


def test_a_connection_that_breaks_is_gone_on_with(hub: LoopbackHub, environ):
    hub.cut_after = [1_000_000, 2_000_000, 10]
    assert fetch(environ).read_bytes() == CONTENT
    ranges = [asked for _, _, asked in hub.asked_of("storage")]
    assert ranges == [None, "bytes=1000000-", "bytes=3000000-", "bytes=3000010-"]


def test_what_came_before_an_interruption_is_kept(hub: LoopbackHub, environ):
    hub.cut_after = [2_000_000, 0, 0, 0]
    with pytest.raises(FetchError, match="the same command goes on where it stopped"):
        fetch(environ)
    name = hashlib.sha256(CONTENT).hexdigest()
    assert blobs(environ) == [f"{name}.incomplete"]
    assert not list(Path(environ["HF_HOME"]).rglob("*.gguf"))
    seen = len(hub.asked_of("storage"))
    assert fetch(environ).read_bytes() == CONTENT
    assert [asked for _, _, asked in hub.asked_of("storage")[seen:]] == ["bytes=2000000-"]
    assert blobs(environ) == [name]


def test_a_server_that_cannot_go_on_begins_anew(hub: LoopbackHub, environ):
    hub.ranges = False
    hub.cut_after = [2_000_000]
    assert fetch(environ).read_bytes() == CONTENT


def test_a_server_that_begins_anew_and_breaks_off_each_time_is_left(hub: LoopbackHub, environ):
    hub.ranges = False
    hub.cut_after = [100_000] * 50
    with pytest.raises(FetchError, match="ended early"):
        fetch(environ)
    assert len(hub.asked_of("storage")) <= 5


@pytest.mark.parametrize("there", ["http://[bad", "//[::1"])
def test_a_redirect_to_what_is_no_address_is_one_line(hub: LoopbackHub, environ, there: str):
    hub.redirect = there
    with pytest.raises(FetchError, match="what is no address"):
        fetch(environ)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000])
def test_a_listing_that_is_nested_without_end_is_one_line(hub: LoopbackHub, environ, monkeypatch, body: bytes):
    monkeypatch.setattr(json, "dumps", lambda _value: body.decode())
    with pytest.raises(FetchError, match="no listing of files"):
        Hub(environ).describe(REPO, None)


def test_an_address_of_the_hub_that_is_none_is_one_line(environ):
    with pytest.raises(SpecError, match="HF_ENDPOINT is no"):
        Hub({**environ, "HF_ENDPOINT": "http://[bad"})


def test_other_content_than_was_described_is_thrown_away(hub: LoopbackHub, environ):
    hub.content = bytes(len(CONTENT))
    with pytest.raises(FetchError, match="sha256 differs"):
        fetch(environ)
    assert not list(Path(environ["HF_HOME"]).rglob("*.gguf"))
    hub.content = CONTENT
    assert fetch(environ).read_bytes() == CONTENT


def test_more_than_was_described_is_not_read(hub: LoopbackHub, environ):
    hub.content = CONTENT + b"more"
    assert fetch(environ).read_bytes() == CONTENT


def test_which_file_is_chosen(hub: LoopbackHub, environ):
    there = Hub(environ)
    assert there.describe(REPO, None).path == FILE
    assert there.describe(REPO, "big.Q8_0.gguf").size == 2 * len(CONTENT)
    with pytest.raises(SpecError, match=r"has no file 'x.gguf'; it has tiny.Q4_K_M.gguf, mmproj-f16.gguf, big.Q8_0.gguf"):
        there.describe(REPO, "x.gguf")
    hub.files = {"m-00001-of-00002.gguf": b"GGUF", "mmproj.gguf": b"GGUF"}
    with pytest.raises(SpecError, match="no GGUF file that stands by itself"):
        there.describe(REPO, None)


@pytest.mark.parametrize("name", ["../../../../etc/x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a\\x.gguf", "a\n.gguf"])
def test_a_hub_cannot_name_a_place_outside(hub: LoopbackHub, environ, name: str):
    hub.files = {name: b"GGUF"}
    with pytest.raises(SpecError):
        Hub(environ).describe(REPO, None)


@pytest.mark.parametrize("sha", ["../x", "", "a" * 63, 7])
def test_a_commit_that_is_none_is_no_folder(hub: LoopbackHub, environ, monkeypatch, sha):
    listing = {**hub.listing(), "sha": sha}
    monkeypatch.setattr(hub, "listing", lambda: listing)
    with pytest.raises(SpecError):
        Hub(environ).describe(REPO, None)


def test_what_the_hub_refuses_is_one_line_without_the_token(hub: LoopbackHub, environ):
    with pytest.raises(FetchError, match="HTTP 404 for owner/other: no such model"):
        fetch(environ, "owner/other")
    hub.private = True
    with pytest.raises(FetchError, match="HTTP 401 for owner/Tiny-GGUF: it may need a token in HF_TOKEN"):
        fetch({**environ, "HF_TOKEN": ""})
    with pytest.raises(FetchError, match="the token in HF_TOKEN may not read it") as caught:
        fetch({**environ, "HF_TOKEN": TOKEN + "x"})
    assert TOKEN not in str(caught.value)
    assert fetch(environ).exists()


@pytest.mark.parametrize("there", ["file:///etc/passwd", "ftp://127.0.0.1/x", ""])
def test_a_redirect_to_elsewhere_than_http_is_not_followed(hub: LoopbackHub, environ, there: str):
    hub.redirect = there or f"{hub.url}/{REPO}/resolve/{COMMIT}/{FILE}"
    with pytest.raises(FetchError):
        fetch(environ)


def test_a_hub_that_nobody_serves_is_one_line(environ):
    with pytest.raises(FetchError, match=r"127.0.0.1:1: .*refused.*the same command goes on"):
        fetch({**environ, "HF_ENDPOINT": "http://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"HF_ENDPOINT": "hub.example"}, "HF_ENDPOINT"),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_TOKEN": "a\nb"}, "HF_TOKEN holds"),
    ],
)
def test_an_environment_that_cannot_be_used_is_one_line(environ, changed, told: str):
    with pytest.raises(SpecError, match=told):
        Hub({**environ, **changed})


def test_a_full_disk_is_one_line_and_what_fitted_is_kept(hub: LoopbackHub, environ, monkeypatch):
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", no_space)
        with pytest.raises(DiskError, match="No space left on device; the same command goes on"):
            fetch(environ)
    assert blobs(environ)[0].endswith(".incomplete")
    seen = len(hub.asked_of("storage"))
    assert fetch(environ).read_bytes() == CONTENT
    assert len(hub.asked_of("storage")) == seen


def test_two_at_once_do_not_write_into_one_file(hub: LoopbackHub, environ):
    hub.cut_after = [1_000_000]
    hub.hold.clear()
    done: list[Path] = []
    first = threading.Thread(target=lambda: done.append(fetch(environ)))
    first.start()
    while not hub.asked_of("storage"):
        pass
    with pytest.raises(FetchError, match="another process is fetching it"):
        fetch(environ)
    hub.hold.set()
    first.join()
    assert done[0].read_bytes() == CONTENT


def test_names_stand_for_repositories():
    assert resolve_name(None, None) == module.KNOWN[module.DEFAULT]
    assert resolve_name("SmolLM2-360M", None)[0] == "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF"
    assert resolve_name("owner/name", "x.gguf") == ("owner/name", "x.gguf")


@pytest.mark.slow
def test_the_command_fetches_and_a_job_finds_what_it_fetched(mill, hub: LoopbackHub, small: Path, environ):
    hub.content = small.read_bytes()
    hub.files = {FILE: hub.content}
    hub.cut_after = [len(hub.content) // 2]
    hub.hold.clear()
    process = mill.start("local", "pull", REPO, env=environ)
    while not hub.asked_of("storage"):
        pass
    process.send_signal(signal.SIGINT)
    told = mill.told(process)
    assert told.code == 130, told.err
    hub.hold.set()
    told = mill.command("local", "pull", REPO, env=environ)
    assert told.code == 0, told.err
    path = Path(told.out.splitlines()[0])
    assert path.read_bytes() == hub.content
    assert find_weights({"HF_HOME": environ["HF_HOME"]}, name="owner/Tiny-GGUF").path == path
    assert TOKEN not in told.out + told.err
    told = mill.command("local", "pull", "no-such-name", env=environ)
    assert told.code == 2
    assert "owner/name on the hub, or one of qwen2.5-1.5b" in told.err
    assert os.path.lexists(path)
