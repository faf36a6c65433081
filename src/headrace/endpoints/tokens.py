"""Which tokens can begin a label, as the server's own tokenizer says. Where none is served, nobody says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
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
    """The tokens that can begin each label, behind a space and behind none. None where the server does not say.

    Raises TransportError.
    """
    found: dict[str, list[str]] = {}
    has_pieces = False
    for label in labels:
        text = label.strip()
        spaced = await _first_tokens(f" {text}", model, urls, post)
        plain = await _first_tokens(text, model, urls, post) if spaced is not None else None
        if spaced is None or plain is None:
            return None
        has_pieces = plain.has_pieces
        tokens = [spaced.texts[0], plain.texts[0]]
        if plain.texts[0].startswith(" "):  # this tokenizer puts a space before every text, also before the one that has one
            tokens = [plain.texts[0], plain.texts[0][1:] or "".join(plain.texts[1:])]
        found[label] = list(dict.fromkeys(filter(None, tokens)))
    return Beginnings(found, 100 if has_pieces else 20)


class _Tokens(NamedTuple):
    """A text's first tokens as text, one or two. `has_pieces`: the server speaks as llama.cpp does, which bounds no list of
    likeliest tokens.
    """

    texts: list[str]
    has_pieces: bool


async def _first_tokens(text: str, model: str, urls: TokenizerUrls, post: Post) -> _Tokens | None:
    # llama.cpp reads the first three, vLLM and SGLang the others.
    asked = {"content": text, "with_pieces": True, "add_special": False}
    body = {**asked, "model": model, "prompt": text, "add_special_tokens": False}
    tokens = _list_in(await post(urls.split, canon.encode(body)), "tokens")
    if not tokens or len(tokens) > _MOST_PIECES:
        return None
    if isinstance(tokens[0], dict):
        pieces = [_piece(token) for token in tokens[:2]]
        return _Tokens(pieces, has_pieces=True) if pieces[0] else None
    if type(tokens[0]) is not int:
        return None
    reply = _object_in(await post(urls.join, canon.encode({"model": model, "tokens": tokens[:1]})))
    joined = reply.get("prompt", reply.get("text"))
    return _Tokens([joined], has_pieces=False) if isinstance(joined, str) and joined and joined in text else None


def _piece(token: Any) -> str:
    """A token's text, which comes as its bytes where it is no UTF-8; empty where there is none."""
    piece = token.get("piece") if isinstance(token, dict) else None
    if isinstance(piece, list):
        return bytes(byte for byte in piece if type(byte) is int and 0 <= byte < 256).decode("utf-8", "surrogateescape")
    return piece if isinstance(piece, str) else ""


def _object_in(response: Response) -> dict[str, Any]:
    value = parse(response.body) if response.status == 200 else None
    return value if isinstance(value, dict) else {}


def _list_in(response: Response, name: str) -> list[Any] | None:
    found = _object_in(response).get(name)
    return found if isinstance(found, list) else None
