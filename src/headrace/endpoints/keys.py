"""Where the endpoint's key and secret headers come from. Values are read, checked and never shown."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import SpecError
from headrace.spec import EndpointSpec

_LONGEST = 1 << 20  # characters: no key is so long, and one that is cut is refused by whom it is sent to
COMMAND_LIMIT_S = 30.0


class Key:
    """The headers that carry secrets, read at once and again after a 401. `generation` grows when the key changed.

    Raises SpecError from the constructor: a variable that is not set, a file or command that gives no key.
    """

    def __init__(self, spec: EndpointSpec, base: Path, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._base = base
        self._environ = environ
        self._value = self._read()
        self._headers = {name: self._variable(name, variable) for name, variable in spec.headers_env.items()}
        self._lock = asyncio.Lock()
        self._refused: int | None = None
        self.generation = 0

    def __repr__(self) -> str:
        return f"Key(generation={self.generation})"

    def headers(self) -> dict[str, str]:
        """Secret headers by name, `Authorization` among them where there is a key."""
        headers = dict(self._headers)
        if self._value is not None and "authorization" not in {name.lower() for name in headers}:
            headers["Authorization"] = f"Bearer {self._value}"
        return headers

    def secrets(self) -> list[str]:
        """What must appear nowhere."""
        return [value for value in (self._value, *self._headers.values()) if value]

    async def renew(self, generation: int) -> bool:
        """After a 401 of a request sent with `generation`: True if there is another key now.

        The source is read once for all requests that were in flight. Raises SpecError if it cannot be read.
        """
        async with self._lock:
            if generation != self.generation:
                return True
            if self._refused == generation:
                return False
            # A command runs in a thread of its own: it may take its whole limit.
            read = asyncio.to_thread(self._read) if self._spec.api_key_command else None
            value = self._read() if read is None else await read
            if value is None or value == self._value:
                self._refused = generation
                return False
            self._value = value
            self.generation += 1
            return True

    def _read(self) -> str | None:
        spec = self._spec
        if spec.api_key_env is not None:
            found = self._environ.get(spec.api_key_env)
            if not found:
                state = "not set" if found is None else "empty"
                raise SpecError(
                    f"endpoint.api_key_env: the environment variable {spec.api_key_env} is {state}", key="endpoint.api_key_env"
                )
            return _checked(found, "endpoint.api_key_env", f"the environment variable {spec.api_key_env}")
        if spec.api_key_file is not None:
            return _checked(self._file(spec.api_key_file), "endpoint.api_key_file", "the file")
        if spec.api_key_command is not None:
            return _checked(self._command(spec.api_key_command), "endpoint.api_key_command", "the command's output")
        return None

    def _file(self, name: str) -> str:
        try:
            with (self._base / Path(name).expanduser()).open(encoding="utf-8") as file:
                return file.read(_LONGEST)
        except OSError as error:
            raise SpecError(
                f"endpoint.api_key_file: {name} cannot be read: {error.strerror}", key="endpoint.api_key_file"
            ) from error
        except UnicodeDecodeError:
            raise SpecError(f"endpoint.api_key_file: {name} is no text", key="endpoint.api_key_file") from None

    def _command(self, command: str | list[str]) -> str:
        """The command's stdout. Neither the command's words nor its output are shown: both may hold a secret."""
        key = "endpoint.api_key_command"
        try:
            done = subprocess.run(  # noqa: S603 - the job file's own command, run as its author wrote it
                command,
                shell=isinstance(command, str),
                cwd=self._base,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SpecError(f"{key}: the command did not end within {COMMAND_LIMIT_S:g} s", key=key) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a usable command"
            raise SpecError(f"{key}: the command cannot be run: {reason}", key=key) from None
        if done.returncode != 0:
            raise SpecError(f"{key}: the command ended with exit code {done.returncode}; run it by hand to see why", key=key)
        return done.stdout.decode("utf-8", "replace")

    def _variable(self, header: str, variable: str) -> str:
        found = self._environ.get(variable)
        if found is None:
            raise SpecError(
                f"endpoint.headers_env: the environment variable {variable} (for {header}) is not set", key="endpoint.headers_env"
            )
        return _checked(found, "endpoint.headers_env", f"the environment variable {variable}")


def _checked(value: str, key: str, where: str) -> str:
    value = value.strip()
    if not value:
        raise SpecError(f"{key}: {where} holds no key", key=key)
    if not value.isascii() or not value.isprintable():
        raise SpecError(f"{key}: {where} holds a line break or a character that no HTTP header can carry", key=key)
    return value
