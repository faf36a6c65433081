"""Inputs: files read as records, in order, in chunks, with bounded memory; and the places where records live."""

from __future__ import annotations

from headrace.sources.matching import matches
from headrace.sources.open import OpenedSource, open_source
from headrace.sources.records import RecordPlaces, RecordsFile, parse

__all__ = ["OpenedSource", "RecordPlaces", "RecordsFile", "matches", "open_source", "parse"]
