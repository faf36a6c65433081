"""Undoes the fix of a case in every Python process that is started with this folder in its path, before anything is imported."""
# ruff: noqa: INP001 - Python finds it by its name

from __future__ import annotations

import os

case = os.environ.get("HEADRACE_REVERTED_CASE")
if case:
    from soak.mutations import install
    from soak.reverts import CASES

    install(next(revert.mutation for revert in CASES if revert.case == case))
