"""Exact counts on request: by a tokenizer's file or vocabulary, or by the model's own server for a GGUF."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from headrace.errors import SpecError
from headrace.local.server import LocalServer, Serving, insist_on_llama_cpp
from headrace.local.weights import find_weights
from headrace.runs.prompttexts import PromptTexts
from headrace.runs.rehearsal import TokenCounter
from headrace.tokenizers.open import Tokenizer, open_tokenizer

_TIMEOUT_S = 120.0
_CONTEXT = 512  # nothing is generated


@contextlib.contextmanager
def counter_of(named: str | None) -> Iterator[TokenCounter | None]:
    """What `--tokenizer` names, for as long as it is used; None where nothing is named. Raises SpecError."""
    if named is None:
        yield None
    elif named.lower().endswith(".gguf"):
        with _ServedCounter(Path(named).expanduser()) as counter:
            yield counter
    else:
        yield _TextCounter(open_tokenizer(named))


class _TextCounter:
    """Counts the texts of requests; what the chat template adds is not known to a tokenizer."""

    has_template = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.name = tokenizer.name

    def count(self, requests: Sequence[PromptTexts]) -> list[float]:
        counts = iter(self._tokenizer.count([text for request in requests for text in request.texts]))
        return [float(sum(next(counts) for _ in request.texts)) for request in requests]


class _ServedCounter:
    """Counts by llama.cpp itself, which loads the GGUF: the chat template is its own too. To be used in a `with`."""

    has_template = True

    def __init__(self, path: Path) -> None:
        insist_on_llama_cpp()
        weights = find_weights(os.environ, chosen=path, called="--tokenizer")
        self.name = path.name
        self._server = LocalServer(weights, Serving(1, _CONTEXT))

    def __enter__(self) -> Self:
        try:
            place = urlsplit(self._server.wait_ready().url)
        except BaseException:
            self._server.close()
            raise
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._server.close()

    def count(self, requests: Sequence[PromptTexts]) -> list[float]:
        return [float(self._count(request)) for request in requests]

    def _count(self, request: PromptTexts) -> int:
        if request.messages:
            text = self._ask("/apply-template", {"messages": request.value})["prompt"]
        else:
            text = request.value
        return len(self._ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"])

    def _ask(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._server.api_key}"}
        try:
            self._connection.request("POST", route, json.dumps(body), headers)
            response = self._connection.getresponse()
            raw = response.read()
            if response.status == http.client.OK:
                found: dict[str, Any] = orjson.loads(raw)
                return found
            why = f"it answers {response.status}: {raw[:200].decode('utf-8', 'replace')}"
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
            why = self._server.how_it_ended() if self._server.has_ended else str(error)
        raise SpecError(f"--tokenizer: {self.name} cannot count this job's prompts: {why}", key="--tokenizer")
