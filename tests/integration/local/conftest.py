"""Real weights for a real llama.cpp: the ones that `make weights` installs, and their first layer alone, which is fast."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.local.weights import CARRIERS, Weights, find_weights

WHAT_TO_TYPE = "these tests run the real llama.cpp with real weights: type `make weights`"
PATIENCE_S = 120.0


@pytest.fixture(scope="session")
def real_weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """Never skipped: whoever lacks them is told what to type."""
    try:
        import xllamacpp  # noqa: F401
    except ImportError as error:
        pytest.fail(f"{WHAT_TO_TYPE} ({error})")
    empty = tmp_path_factory.mktemp("no-cache")
    try:
        found = find_weights({"HF_HUB_CACHE": str(empty)})
    except SpecError as error:
        pytest.fail(f"{WHAT_TO_TYPE} ({error})")
    assert found.path.name == CARRIERS[0].file
    return found


@pytest.fixture(scope="session")
def small(real_weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with its first layer alone: real weights that llama.cpp loads, and no sense in what it says."""
    path = tmp_path_factory.mktemp("weights") / "one-layer.gguf"
    _keep_one_layer(real_weights.path, path)
    return path


@pytest.fixture
def local_job(mill, small: Path):
    """Writes a job for the embedded model with the small weights, and its input."""

    def put(count: int = 12, **sections):
        mill.env["HF_HUB_CACHE"] = str(mill.folder / "no-cache")
        mill.put_rows([{"id": f"r{n}", "text": f"A package number {n} that draws charts."} for n in range(count)])
        # Its answers make no sense, so a grammar makes them short: three letters.
        usual = {"name": "local", "weights": str(small), "temperature": 0, "extra": {"grammar": "root ::= [a-z] [a-z] [a-z]"}}
        sections["model"] = {**usual, **sections.get("model", {})}
        return mill.put_job("local", **sections)

    return put


class Processes:
    """Processes as the operating system lists them; what is dead and not yet fetched by its parent is not one."""

    def servers_of(self, parent: int) -> list[int]:
        """The model servers that a process has started."""
        rows = _listed("ppid=,pid=,args=")
        return [int(pid) for above, pid, line in rows if int(above) == parent and "local/child.py" in line]

    def server_of(self, parent: int) -> int:
        """The one model server of a process; waits until there is one."""
        self._wait(lambda: self.servers_of(parent))
        (server,) = self.servers_of(parent)
        return server

    def session_of(self, server: int) -> list[int]:
        """Every process of the server's session: the server, and who watches over it."""
        rows = _listed("sess=,pid=,stat=")
        return [int(pid) for session, pid, state in rows if int(session) == server and not state.startswith("Z")]

    def are_gone(self, server: int) -> bool:
        """Waits until nothing of the server is left."""
        return self._wait(lambda: not self.session_of(server))

    @staticmethod
    def _wait(question: Callable[[], object]) -> bool:
        end = time.monotonic() + PATIENCE_S
        while not question():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


@pytest.fixture
def processes() -> Processes:
    assert shutil.which("ps"), "these tests look at processes with ps"
    return Processes()


def _listed(columns: str) -> list[list[str]]:
    told = subprocess.run(["ps", "-e", "-ww", "-o", columns], capture_output=True, text=True, check=True).stdout
    return [row.split(None, 2) for row in told.splitlines()]


def _keep_one_layer(source: Path, target: Path) -> None:
    """Write a GGUF with everything of `source` but the layers after the first."""
    data = source.read_bytes()
    form = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    at = 24
    tensors, entries = struct.unpack_from("<QQ", data, 8)

    def text() -> bytes:
        nonlocal at
        (length,) = struct.unpack_from("<Q", data, at)
        at += 8 + length
        return data[at - length : at]

    def skip(kind: int) -> None:
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, count = struct.unpack_from("<IQ", data, at)
            at += 12
            if inner == 8:
                for _ in range(count):
                    text()
            else:
                at += count * form[inner]
        else:
            at += form[kind]

    pieces = []
    for _ in range(entries):
        start = at
        key = text()
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        skip(kind)
        value = data[start:at]
        pieces.append(value[:-4] + struct.pack("<I", 1) if key.endswith(b".block_count") else value)
    infos = []
    for _ in range(tensors):
        name = text()
        (dimensions,) = struct.unpack_from("<I", data, at)
        shape = data[at : at + 4 + 8 * dimensions + 4]
        at += len(shape)
        (offset,) = struct.unpack_from("<Q", data, at)
        at += 8
        infos.append((offset, name, shape))
    base = -(-at // 32) * 32
    infos.sort()
    ends = [offset for offset, _, _ in infos[1:]] + [len(data) - base]
    kept = [
        (info, end)
        for info, end in zip(infos, ends, strict=True)
        if not info[1].startswith(b"blk.") or info[1].startswith(b"blk.0.")
    ]
    head = [data[:8], struct.pack("<QQ", len(kept), entries), *pieces]
    body, place = [], 0
    for (offset, name, shape), end in kept:
        head.append(struct.pack("<Q", len(name)) + name + shape + struct.pack("<Q", place))
        content = data[base + offset : base + end]
        content += bytes(-len(content) % 32)
        body.append(content)
        place += len(content)
    joined = b"".join(head)
    target.write_bytes(joined + bytes(-len(joined) % 32) + b"".join(body))
