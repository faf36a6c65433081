"""The command `headrace`: parses, calls what does the work, prints. No rule of the work lives here."""

from __future__ import annotations

from headrace.cli.app import main

__all__ = ["main"]
