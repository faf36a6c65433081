"""The run lock: flock on run.lock. The kernel releases it with the process; the text inside is for people only."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Self

from headrace.errors import DiskError, LedgerError, LockedError


class RunLock:
    """Held from construction until `release` or the end of the process.

    Raises LockedError, naming the owner; DiskError where the folder cannot be written; LedgerError where nothing can be locked.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DiskError(f"{path.parent}: the run folder cannot be written ({error.strerror}).") from error
        try:
            taken = _take(self._fd)
        except OSError as error:
            os.close(self._fd)
            raise LedgerError(
                f"{path.parent}: files cannot be locked there ({error.strerror}); give a local folder with --run-dir."
            ) from error
        if not taken:
            owner = os.pread(self._fd, 200, 0).decode("utf-8", "replace").strip()
            os.close(self._fd)
            raise LockedError(
                f"{path.parent.name}: another process is working on this run ({owner or 'owner unknown'}); "
                "wait for it or stop it, then run the same command again."
            )
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"pid {os.getpid()} on {os.uname().nodename}".encode(), 0)
        except OSError:
            pass  # a full disk must not keep a run from going on: the text is for people only

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _take(fd: int) -> bool:
    """Try for a fifth of a second: a reader that asks whether the lock is held has it for an instant itself."""
    for _ in range(10):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def is_held(path: Path) -> bool:
    """True while some process holds the lock. Never creates or changes anything."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # nothing can be locked there, by nobody
    else:
        return False
    finally:
        os.close(fd)
