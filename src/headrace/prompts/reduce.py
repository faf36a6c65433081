"""The prompt that joins the answers to an item's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.errors import SpecError
from headrace.prompts.render import PromptRenderer
from headrace.spec import JobSpec, PromptSpec, ReduceSpec
from headrace.values import Piece

KEY = "slice.split.join.prompt"
OURS = frozenset({"answers", "level", "last"})


class ReducePrompt:
    """`slice.split.join.prompt`, with the job's own system message before it where there is one.

    It prints `answers`, a list of texts in the order of the document; `level` (1 for the answers of pieces) and `last`
    (whether what comes is the item's answer); and those of the record's fields that were not divided. Raises SpecError.
    """

    def __init__(self, spec: JobSpec, join: ReduceSpec) -> None:
        is_chat = spec.model.route == "chat"
        prompt = PromptSpec(system=spec.prompt.system, user=join.prompt) if is_chat else PromptSpec(prompt=join.prompt)
        try:
            self._renderer = PromptRenderer(spec.model_copy(update={"prompt": prompt}))
        except SpecError as error:
            key = error.key or ""
            wrong = "prompt.user" if is_chat else "prompt.prompt"
            if not key.startswith(wrong):
                raise
            raise SpecError(str(error).replace(wrong, KEY, 1), key=KEY, found=error.found, allowed=error.allowed) from None
        fields = self._renderer.fields
        if fields is not None and "answers" not in fields:
            raise SpecError(f"{KEY}: it prints no {{{{ answers }}}}: there would be nothing to join", key=KEY, allowed="answers")
        self.fields = None if fields is None else fields - OURS
        """The record's fields that it reads, or None if that cannot be known."""

    def render(self, item: int, fields: dict[str, Any], answers: Sequence[str], level: int, *, last: bool) -> bytes:
        """The payload of one request. Raises RecordError."""
        return self._renderer.render(Piece(item, 0, {**fields, "answers": list(answers), "level": level, "last": last}))
