"""Takes secrets out of every text that leaves this folder, before it is shortened."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

from headrace.endpoints.phrases import Phrases

LONGEST = 300
_SCANNED = 1_200  # what is behind is not shown
_REACH = 600  # longer than what the patterns below want to see whole
_MASK = "[redacted]"
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@\"'<>]{1,500}@")
_QUERY = re.compile(r"(?i)(https?://[^\s?\"'<>]{1,2000}\?)[^\s\"'<>]{1,2000}")
_NAMED = Phrases(
    "authorization|key|cookie|token",
    r"(?i)\b((?:proxy-)?authorization|x-api-key|api[-_]?key|apikey|x-goog-api-key|ocp-apim-subscription-key|set-cookie|cookie"
    r"|access[-_]token|x-auth-token)\b(\\?[\"']?\s*[:=]\s*\\?[\"']?)(?:(?:bearer|basic)\s+)?[^\s\"',;&<>}\\]{1,4000}",
)
_TOKENS = Phrases(
    "bearer|basic|sk-|sk_|pk-|pk_|rk-|rk_|hf-|hf_|xai-|xai_|nvapi|r8-|r8_|key-|key_|aiza",
    r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,4000}|\b(?:sk|pk|rk|gsk|hf|xai|csk|nvapi|r8|key)[-_][a-z0-9_-]{8,400}\b"
    r"|\bAIza[a-z0-9_-]{20,100}",
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Redactor:
    """Knows the configured secrets and shows none, not even in its repr. Texts come out on one line of 300 characters."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        self._longest = 0
        self.add(secrets)

    def __repr__(self) -> str:
        return "Redactor()"

    def add(self, secrets: Iterable[str]) -> None:
        """Know these too, also base64- and percent-encoded. Values under 4 characters cannot be told from text."""
        forms = set(self._forms)
        for secret in secrets:
            if len(secret) < 4:
                continue
            raw = secret.encode("utf-8", "surrogateescape")
            encoded = base64.b64encode(raw).decode().rstrip("=")
            forms |= {secret, quote(secret, safe=""), quote_plus(secret), encoded, encoded.replace("+", "-").replace("/", "_")}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._longest = max(map(len, forms), default=0)

    def __call__(self, text: str) -> str:
        """The text without secrets, on one line, control characters escaped, at most 300 characters."""
        shown = " ".join(_without_likely(self._without_known(text)[:_SCANNED]).split())
        if len(text) > _SCANNED and len(shown) < LONGEST + _REACH:
            # So much was taken out that the cut may show: with it goes the word that it went through.
            shown = shown[: max(0, *map(shown.rfind, " \"'<>,;"))] + "…"
        shown = _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)
        return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"

    def _without_known(self, text: str) -> str:
        """At least the beginning of the text, without what is configured."""
        begun = text[: _SCANNED * 4]
        whole = len(begun) == len(text)
        for form in self._forms:
            begun = begun.replace(form, _MASK)
        # A cut may have gone through a secret, whose beginning is then what the text ends with.
        return begun if whole else begun[: max(len(begun) - self._longest, 0)]


def _without_likely(text: str) -> str:
    """The text without what looks like a secret."""
    folded = text.casefold()
    if "://" in text:
        text = _USERINFO.sub(rf"\1{_MASK}@", text)
        text = _QUERY.sub(rf"\1{_MASK}", text)
    if _NAMED.possible(folded):
        text = _NAMED.pattern.sub(rf"\1\2{_MASK}", text)
    return _TOKENS.pattern.sub(_MASK, text) if _TOKENS.possible(folded) else text


def shown_url(url: str) -> str:
    """A URL for people: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
