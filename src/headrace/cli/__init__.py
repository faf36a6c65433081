"""The command `headrace`: parses, calls what does the work, prints. No rule of the work lives here."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point. Ctrl-C while the program is still being loaded ends it quietly, too."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's algebra is not used here; its threads only spin
    try:
        from headrace.cli import app  # noqa: PLC0415 (loading takes long enough to be interrupted)
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()
