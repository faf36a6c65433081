"""Texts to be cut: sentences, long white space, wide characters, clusters, lone surrogates."""

from __future__ import annotations

from hypothesis import strategies as st

PARTS = [
    "The mill runs. ", "A long sentence without an end that goes on ", "word ", "漢字。", "e\u0301", "👩‍👩‍👧 ", "🇩🇪🇫🇷", "\r\n", "\n\n",
    " " * 90, "\n" * 90, "\r\n" * 50, "\u2028", "\ud800", "नमस्ते। ", "\u1112\u1161\u11ab", "\x00", "https://example.org/a/b?c=d ", "x" * 70,
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=12)), max_size=40).map("".join)
