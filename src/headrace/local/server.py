"""The embedded model's server: a child process with llama.cpp's own HTTP server, which never outlives this process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from headrace.errors import SpecError
from headrace.local.gguf import Gguf
from headrace.local.weights import Weights

INSTALL = "pip install xllamacpp"  # the whole of the extra `local`
_CHILD = Path(__file__).with_name("child.py")
_SLOTS = 8
_SLOTS_IF_UNKNOWN = 4
_CONTEXT = 4096
_CACHE_BYTES = 2**30
_LOAD_S, _LOAD_BYTES_A_SECOND = 120.0, 20e6
_KEPT_LINES, _KEPT_CHARS = 40, 400
_ENDING_S = 5.0
_STAMP = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} ?(?:([A-Z]) )?")  # cut short where the child ended while it wrote
# What merely follows from an error before it, and what is said of memory before the error comes.
_CONSEQUENCES = ("failed to load model", "exiting due to model loading", "fit_params")
_CRASHES = ("GGML_ASSERT", "what():")


class Serving(Struct, frozen=True):
    """How to serve: `slots` requests at once, each of `context` tokens at most, prompt and answer together."""

    slots: int
    context: int
    port: int = 0
    embeddings: bool = False


def default_serving(gguf: Gguf) -> Serving:
    """8 slots of 4,096 tokens; less where the model was trained on less or its cache would take more than 1 GiB."""
    context = min(_CONTEXT, gguf.context_length or _CONTEXT)
    if not gguf.kv_bytes_per_token:
        return Serving(_SLOTS_IF_UNKNOWN, context)
    fitting = _CACHE_BYTES // (context * gguf.kv_bytes_per_token)
    return Serving(max(1, min(_SLOTS, fitting)), context)


def insist_on_llama_cpp() -> None:
    """Raise SpecError, with what to type, where xllamacpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise SpecError(
            f'endpoint.url = "local" needs llama.cpp; type `{INSTALL}`; then `headrace local status`',
            key="endpoint.url",
            allowed="http(s)://host/v1",
        )


class LocalServer:
    """One child. Started by the constructor, ready after `wait_ready`, ended by `close` or with this process, however it ends.

    It serves on loopback, to whoever has `api_key`; without it every route but /health answers 401. The key goes through a
    pipe: it stands in no command line, environment, file or log. Raises SpecError where no child can be started.
    """

    def __init__(self, weights: Weights, serving: Serving, api_key: str | None = None) -> None:
        insist_on_llama_cpp()
        self.weights = weights
        self.serving = serving
        self.api_key = api_key or secrets.token_urlsafe(32)
        self.url = ""
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = _spawn()
        self._reader = threading.Thread(target=self._keep_log, name="headrace-local-log", daemon=True)
        self._reader.start()
        self._give_order()

    def __repr__(self) -> str:
        return f"LocalServer(pid={self.pid}, url={self.url!r})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_ready(self) -> Self:
        """Block until it answers, and set `url` (http://127.0.0.1:PORT). Raises SpecError, in one line, if it never does.

        Another thread may `close` meanwhile.
        """
        limit_s = _LOAD_S + self.weights.gguf.size / _LOAD_BYTES_A_SECOND
        try:
            told = self._told(time.monotonic() + limit_s)
        except TimeoutError:
            self.close()
            raise self._failed(f"the model was not loaded within {limit_s:.0f} s") from None
        finally:
            self._close_out()
        if "url" in told:
            self.url = str(told["url"])
            return self
        self.close()
        if told.get("failed") == "import":
            raise SpecError(_import_failure(str(told.get("message", ""))), key="endpoint.url")
        raise self._failed(self.last_words() or str(told.get("message") or ""))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the child has ended; False when it still lives after `timeout_s`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def last_words(self) -> str:
        """What the child said last that tells why it ended; one line, the key taken out of it. Empty where it said nothing."""
        said = [line for line in (_said(line) for line in list(self._log)) if line]
        crashes = [line for line in said if any(word in line for word in _CRASHES)]
        causes = [line for line in said if not any(word in line for word in _CONSEQUENCES)]
        word = (crashes or causes or said or [""])[0].rpartition("error loading model: ")[2]
        return " ".join(word.replace(self.api_key, "[redacted]").split())

    def how_it_ended(self) -> str:
        """In a few words: by which signal or exit code, and its last words."""
        said = self.last_words()
        return _ended(self._process.poll()) + (f": {said}" if said else "")

    def close(self) -> None:
        """End the child and wait for it. Safe to call again, and from another thread."""
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # it has gone before
                process.stdin.close()
        if not self.wait(_ENDING_S):
            process.kill()
            process.wait()
        self._reader.join(_ENDING_S)
        if not self.url:
            self._close_out()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _give_order(self) -> None:
        order = {
            "weights": str(self.weights.path), "alias": self.weights.name, "api_key": self.api_key, "port": self.serving.port,
            "slots": self.serving.slots, "context": self.serving.context, "embeddings": self.serving.embeddings,
        }  # fmt: skip
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has died already: wait_ready says why
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _told(self, until: float) -> dict[str, Any]:
        """The child's one line; empty where it ended without a word. Raises TimeoutError."""
        out = self._process.stdout
        assert out is not None
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError
                part = os.read(out.fileno(), 65536)
                if not part:
                    self._process.wait()
                    return {}
                line += part
        value = json.loads(line)
        return value if isinstance(value, dict) else {}

    def _close_out(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _keep_log(self) -> None:
        """Keep the last lines of what the child says, so that it never waits for a reader and nothing grows."""
        log = self._process.stderr
        assert log is not None
        while line := log.readline(_KEPT_CHARS):
            self._log.append(line.decode("utf-8", "replace"))
        log.close()

    def _failed(self, why: str) -> SpecError:
        """`why` is what the child or the library said; empty where it ended without a word."""
        self._reader.join(_ENDING_S)
        serving = self.serving
        if serving.port and _is_taken(serving.port):
            return SpecError(f"port {serving.port} is taken on 127.0.0.1; 0 takes one that is free", key="--port")
        hint = ""
        if "memory" in why or "alloc" in why:
            hint = f"; {serving.slots} slots of {serving.context:,} tokens do not fit: take a smaller model, or less of them"
        return SpecError(
            f"{self.weights.path}: llama.cpp cannot serve this model: {why or _ended(self._process.returncode)}{hint}",
            key="model.weights",
        )


def _spawn() -> subprocess.Popen[bytes]:
    """A process in a session of its own: the terminal's Ctrl-C does not reach it while its last requests are drained."""
    # Threads that wait by spinning starve each other where other programs run on the same processors.
    environ = {**os.environ, "GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "passive"}
    try:
        return subprocess.Popen(  # noqa: S603 (our own file, by this interpreter)
            [sys.executable, "-P", str(_CHILD)],  # -P: a file in the current folder is no module
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=environ,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f'endpoint.url = "local": no child process can be started ({reason})', key="endpoint.url") from None


def _is_taken(port: int) -> bool:
    """Asked of the system, because the child may end before its log says why."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _said(line: str) -> str:
    """An error's text, or what was said outside the log; empty for a warning."""
    stamp = _STAMP.match(line)
    if stamp is None:
        return line.strip()
    return line[stamp.end() :].strip() if stamp[1] == "E" else ""


def _import_failure(message: str) -> str:
    if "libgomp" in message:
        return f"llama.cpp needs the system's OpenMP library ({message}): on Debian `apt-get install libgomp1`"
    return f"xllamacpp cannot be loaded ({message[:300]}): {INSTALL}"


def _ended(code: int | None) -> str:
    if code is None:
        return "it still runs"
    if code == -9:
        return "it was killed (signal 9), as a machine that is out of memory does"
    return f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
