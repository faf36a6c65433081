"""The key of `headrace local serve` as a file that its owner alone may read, there as long as the server is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import DiskError


@contextmanager
def key_file(folder: Path, port: int, key: str) -> Iterator[Path]:
    """Write the key to `folder`/serve-PORT.key and take it away in the end. Raises DiskError."""
    path = folder / f"serve-{port}.key"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of a server that was killed: the port is ours now
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
    except OSError as error:
        raise DiskError(f"{path}: the key cannot be kept there ({error.strerror}); give one with --api-key-env") from None
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
