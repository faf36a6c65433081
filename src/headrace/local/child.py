"""The child: llama.cpp's HTTP server, alive as long as the pipe on its stdin. Run as a script, never imported.

The first line on stdin is the order, a JSON object with the key in it; what follows is nothing until the end of the pipe.
On stdout one JSON line: {"url"} once it answers, or {"failed"}. Imports the standard library and xllamacpp alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

_GRACE_S = 0.5
_LOG_S = 0.2  # the library logs from a thread of its own: it says why the model was not loaded after it was not


def main() -> None:
    order = json.loads(_first_line())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o077)
    watch = _leave_watch()
    out = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints goes to the log
    try:
        import xllamacpp  # noqa: PLC0415

        server = xllamacpp.Server(_parameters(xllamacpp, order))
    except (ImportError, RuntimeError, AttributeError) as error:
        kind = "load" if isinstance(error, RuntimeError) else "import"
        _tell(out, {"failed": kind, "message": str(error)})
        time.sleep(_LOG_S)
        _end(watch, 1)
    _tell(out, {"url": server.listening_address})
    _wait_for_the_end()
    _end(watch, 0)


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            os._exit(1)
        line += part
    return line


def _leave_watch() -> int:
    """A second process that ends this one when the pipe does: while a model is loaded no thread of ours gets to run.

    It is the forked one: on macOS a process that was forked cannot use the graphics card.
    """
    server = os.getpid()
    watch = os.fork()
    if watch:
        return watch
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    _wait_for_the_end()
    time.sleep(_GRACE_S)
    if os.getppid() == server:  # else it has gone by itself, and its number may be another's
        os.kill(server, signal.SIGKILL)
    os._exit(0)


def _wait_for_the_end() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 65536):
            pass


def _end(watch: int, code: int) -> None:
    """Hard: neither the library's threads nor what it was computing are waited for."""
    os.kill(watch, signal.SIGKILL)
    os.waitpid(watch, 0)
    os._exit(code)


def _tell(out: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more, and the pipe says so in a moment
        os.write(out, json.dumps(message).encode() + b"\n")


def _parameters(xllamacpp: Any, order: dict[str, Any]) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = order["weights"]
    parameters.model_alias = {order["alias"]}
    parameters.api_keys = [order["api_key"]]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = order["port"]
    parameters.n_parallel = order["slots"]
    parameters.n_ctx = order["slots"] * order["context"]
    parameters.n_threads_http = 2 * order["slots"] + 8  # one for each connection that waits or idles
    parameters.endpoint_metrics = parameters.endpoint_props = parameters.endpoint_slots = True
    parameters.ui = False
    parameters.cors_origins = ""  # no page in a browser is a client
    # Prompts of other slots kept beside the slots: up to 8 GiB that work with one long head does not need.
    parameters.cache_ram_mib = 0
    parameters.verbosity = 2  # errors and warnings; a request is several lines at 3
    threads = _usable_processors()
    if threads is not None:
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    if order["embeddings"]:
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return parameters


def _usable_processors() -> int | None:
    """Fewer than the machine has, where this process may use fewer: llama.cpp counts the machine's. None: all of them."""
    there = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:  # noqa: PTH123 (pathlib is one more import)
            quota, _, period = file.read().partition(" ")
        if quota != "max":
            usable = min(usable, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return usable if usable < there else None


if __name__ == "__main__":
    main()
