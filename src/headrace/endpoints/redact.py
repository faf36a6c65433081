"""Takes secrets out of every text that leaves this folder, before it is shortened."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

LONGEST = 300
_SCANNED = 4_000
_MASK = "[redacted]"
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@\"'<>]{1,500}@")
_QUERY = re.compile(r"(?i)(https?://[^\s?\"'<>]{1,2000}\?)[^\s\"'<>]{1,2000}")
_NAMED = re.compile(
    r"(?i)\b((?:proxy-)?authorization|x-api-key|api[-_]?key|apikey|x-goog-api-key|ocp-apim-subscription-key|set-cookie|cookie"
    r"|access[-_]token|x-auth-token)\b(\\?[\"']?\s*[:=]\s*\\?[\"']?)(?:(?:bearer|basic)\s+)?[^\s\"',;&<>}\\]{1,4000}"
)
_TOKENS = re.compile(
    r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,4000}|\b(?:sk|pk|rk|gsk|hf|xai|csk|nvapi|r8|key)[-_][a-z0-9_-]{8,400}\b"
    r"|\bAIza[a-z0-9_-]{20,100}"
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")


class Redactor:
    """Knows the configured secrets and shows none, not even in its repr. Texts come out on one line of 300 characters."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: tuple[str, ...] = ()
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

    def __call__(self, text: str) -> str:
        """The text without secrets, on one line, control characters escaped, at most 300 characters."""
        # Cut far behind what is looked at: a secret cut in two here ends before the second cut.
        text = text[: _SCANNED * 4]
        for form in self._forms:
            text = text.replace(form, _MASK)
        text = text[:_SCANNED]
        text = _USERINFO.sub(rf"\1{_MASK}@", text)
        text = _QUERY.sub(rf"\1{_MASK}", text)
        text = _NAMED.sub(rf"\1\2{_MASK}", text)
        text = _TOKENS.sub(_MASK, text)
        text = _BLANKS.sub(" ", text).strip()
        text = _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def shown_url(url: str) -> str:
    """A URL for people: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
