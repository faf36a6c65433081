"""The command `headrace`: parses, calls what does the work, prints. No rule of the work lives here."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point. Ctrl-C while the program is still being loaded ends it quietly, too."""
    _insist_on_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's algebra is not used here; its threads only spin
    try:
        from headrace.cli import app  # noqa: PLC0415 (loading takes long enough to be interrupted)
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()


def _insist_on_streams() -> None:
    """Where the caller has closed a standard stream, as some daemons do, a socket would get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
