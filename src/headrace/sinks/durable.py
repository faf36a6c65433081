"""The only file of the sinks that touches the disk: a file that appears whole under its name, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.errors import OutputError

_BUFFER_BYTES = 1 << 18


class ReplacedFile:
    """Bytes for `path`, gathered in `<name>.tmp-<pid>` beside it until `commit`.

    Missing parent folders are created. A temporary file that a dead process left for the same path is removed. A symbolic
    link is followed, and an existing file's permissions are kept. Raises OutputError with the path and the reason;
    afterwards `discard` still works.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with mapped(path):
            self._target = Path(os.path.realpath(path))
            if self._target.is_dir():
                raise OutputError(f"cannot write {path}: it is a folder; name a file")
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = self._target.with_name(f"{self._target.name}.tmp-{os.getpid()}")
            remove_left_behind(self._target)
            self._handle: BinaryIO | None = self._temporary.open("wb", buffering=_BUFFER_BYTES)
            _keep_permissions(self._target, self._handle)

    @property
    def handle(self) -> BinaryIO:
        """The open file, for writers that want one. Its OSErrors are to be wrapped in `mapped`."""
        if self._handle is None:
            raise OutputError(f"cannot write {self.path}: it is closed")
        return self._handle

    def write(self, data: bytes) -> None:
        with mapped(self.path):
            self.handle.write(data)

    def commit(self) -> None:
        """Make the bytes durable and give them their name. A second call does nothing."""
        if self._handle is None:
            return
        try:
            with mapped(self.path):
                self._handle.flush()
                os.fsync(self._handle.fileno())
                self._handle.close()
                os.replace(self._temporary, self._target)  # noqa: PTH105 - beside fsync, the call that matters
                self._handle = None
                _sync_folder(self._target.parent)
        except OutputError:
            self.discard()
            raise

    def discard(self) -> None:
        """Leave the path as it was. After `commit` it does nothing; never raises OSError."""
        if self._handle is None:
            return
        with contextlib.suppress(OSError):  # a full disk refuses the last flush again
            self._handle.close()
        self._handle = None
        with contextlib.suppress(OSError):
            self._temporary.unlink()


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turn an OSError into an OutputError that names the path and the reason."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write {path}: {reason}; the answers are kept, `headrace export` writes them elsewhere"
        ) from error


def _sync_folder(folder: Path) -> None:
    """The new name is durable only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_permissions(target: Path, handle: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # there is no such file yet, or a file system without permissions
        os.fchmod(handle.fileno(), stat.S_IMODE(target.stat().st_mode))


def remove_left_behind(target: Path) -> None:
    """Remove the temporary files that dead processes left for this path. Raises OSError where its folder cannot be read."""
    prefix = f"{target.name}.tmp-"
    for entry in list(os.scandir(target.parent)):
        owner = entry.name.removeprefix(prefix)
        if owner != entry.name and owner.isdecimal() and not _is_running(int(owner)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)  # noqa: PTH108 - scandir gives the path as text


def _is_running(process: int) -> bool:
    """Whether another process may still write its file. Our own number means a dead predecessor's: containers reuse it."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
