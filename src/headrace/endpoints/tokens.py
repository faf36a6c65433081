"""Which tokens can begin a label, as the server's own tokenizer says. Where none is served, nobody says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from headrace import canon
from headrace.endpoints.envelopes import parse
from headrace.endpoints.transport import Response

Post = Callable[[str, bytes], Awaitable[Response]]
_MOST_PIECES = 1000


class Beginnings(Struct, frozen=True):
    """`tokens` by label; `most` likeliest tokens can be asked of this server at once."""

    tokens: dict[str, list[str]]
    most: int


class TokenizerUrls(Struct, frozen=True):
    """Where a server splits text into tokens, and where it joins them."""

    split: str
    join: str


def tokenizer_urls(url: str, suffix: str) -> TokenizerUrls:
    """The tokenizer of the server whose route is `url`: beside /v1, where it is served at all."""
    parts = urlsplit(url)
    root = parts.path.removesuffix(suffix).rstrip("/").removesuffix("/v1")
    paths = (root + "/tokenize", root + "/detokenize")
    split, join = (urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")) for path in paths)
    return TokenizerUrls(split, join)


async def ask_beginnings(labels: Sequence[str], model: str, urls: TokenizerUrls, post: Post) -> Beginnings | None:
    """The first token of " label" and of "label". None where the server does not say. Raises TransportError."""
    found: dict[str, list[str]] = {}
    pieces = False
    for label in labels:
        tokens = []
        for text in (f" {label}", label):
            told = await _first(text, model, urls, post)
            if told is None:
                return None
            token, pieces = told
            tokens.append(token)
        found[label] = list(dict.fromkeys(tokens))
    return Beginnings(found, 100 if pieces else 20)


async def _first(text: str, model: str, urls: TokenizerUrls, post: Post) -> tuple[str, bool] | None:
    """The first token's text, and whether the server speaks as llama.cpp does (which bounds no list of tokens)."""
    # llama.cpp reads the first three, vLLM and SGLang the others.
    asked = {"content": text, "with_pieces": True, "add_special": False}
    body = {**asked, "model": model, "prompt": text, "add_special_tokens": False}
    tokens = _list_in(await post(urls.split, canon.encode(body)), "tokens")
    if not tokens or len(tokens) > _MOST_PIECES:
        return None
    if isinstance(tokens[0], dict):
        piece = tokens[0].get("piece")
        if isinstance(piece, list):
            return _decoded(piece), True
        return (piece, True) if isinstance(piece, str) and piece else None
    if type(tokens[0]) is not int:
        return None
    reply = await post(urls.join, canon.encode({"model": model, "tokens": tokens[:1]}))
    joined = _object_in(reply).get("prompt", _object_in(reply).get("text"))
    return (joined, False) if isinstance(joined, str) and joined and joined in text else None


def _decoded(piece: list[Any]) -> str:
    """A piece that is no UTF-8 comes as its bytes."""
    return bytes(byte for byte in piece if type(byte) is int and 0 <= byte < 256).decode("utf-8", "surrogateescape")


def _object_in(response: Response) -> dict[str, Any]:
    value = parse(response.body) if response.status == 200 else None
    return value if isinstance(value, dict) else {}


def _list_in(response: Response, name: str) -> list[Any] | None:
    found = _object_in(response).get(name)
    return found if isinstance(found, list) else None
