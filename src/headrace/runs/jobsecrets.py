"""Keys have no place in a job file: what looks like one, and the refusal that never repeats it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace.errors import SpecError

ALLOWED = "endpoint.api_key_env, api_key_file or api_key_command"
_NAME_SHOWN = 60
HIDDEN = "something that looks like a secret (not shown)"
_REFUSAL = f"a key itself in the job file is refused; use {ALLOWED}"

_FORBIDDEN_KEYS = frozenset(
    {"api_key", "apikey", "key", "token", "api_token", "access_token", "auth_token", "authorization", "auth", "bearer", "secret"}
    | {"password", "passwd", "secret_key", "api_secret", "credentials"}
)
_SECRET_WORDS = frozenset(
    {"key", "apikey", "token", "secret", "password", "passwd", "authorization", "auth", "bearer", "credentials"}
)
_SECRET_QUERIES = frozenset({"sig", "signature", "sas", "code"})  # of signed addresses and functions in clouds
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token"}
    | {"x-goog-api-key", "ocp-apim-subscription-key", "x-api-token", "private-token"}
)
_SECRET_VALUE = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk|xai|gsk|hf|r8|ghp|gho|pat|glpat|nvapi|csk|fw|key)[-_][A-Za-z0-9_-]{6,}|AIza[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]+|AKIA[A-Z0-9]{12,}|//[^/\s]*@"
)
_KEY_IN_COMMAND = re.compile(
    r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{12,}"
    r"|\b(?:sk|pk|rk|xai|gsk|hf|r8|ghp|gho|glpat|nvapi|csk|fw)[-_](?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{16,}"
    r"|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w.-]+|AKIA[A-Z0-9]{12,}"
)
_LONG_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=-]{32,}")
# Stricter: what is refused as a key where a name or a path is expected, so that HF_API_TOKEN and sk-prod.txt are none.
_KEY_ITSELF = re.compile(
    r"(?i:bearer|basic)\s+\S+|(?:sk|pk|rk|xai|gsk|hf|r8|ghp|gho|pat|glpat|nvapi|csk|fw)[-_](?=.*[0-9])[A-Za-z0-9_-]{16,}"
    r"|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w.-]+|(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9]{32,}"
)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def looks_secret(key: str, value: Any) -> bool:
    """Whether a value must not be shown: by the name it stands under, or by its own look."""
    words = re.split(r"[^a-z]+", key.rpartition(".")[2].lower())
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    if isinstance(value, dict):
        return any(looks_secret(str(name), part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return any(looks_secret("", part) for part in value)
    return isinstance(value, str) and bool(_SECRET_VALUE.search(value) or _LONG_TOKEN.fullmatch(value.strip()))


def shown_name(name: str) -> str:
    """A name that somebody chose for a key, for messages: on one line, not long, never one that looks like a secret."""
    return "…" if looks_secret("", name) else ascii(name)[1:-1][:_NAME_SHOWN]


def is_key(value: str) -> bool:
    """Whether a text is a key itself, not a name or a path that speaks of one."""
    return bool(_KEY_ITSELF.fullmatch(value.strip()))


def refuse_secrets(tables: dict[str, Any]) -> None:
    """Raise SpecError where a key stands in the tables of a job, before anything else is judged."""
    entries = tables.get("endpoint")
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            _refuse_in_endpoint(entry)
    model = tables.get("model")
    if isinstance(model, dict):
        _refuse_names("model", model)
        if isinstance(model.get("extra"), dict):
            _refuse_names("model.extra", model["extra"])
    _refuse_names("", tables)


def _refuse_in_endpoint(entry: dict[str, Any]) -> None:
    _refuse_names("endpoint", entry)
    url = entry.get("url")
    if isinstance(url, str) and _url_holds_secret(url):
        raise _refused("endpoint.url")
    headers = entry.get("headers")
    if isinstance(headers, dict):
        for name, value in headers.items():
            known = isinstance(name, str) and name.strip().lower() in _SECRET_HEADERS
            if known or _is_key_itself(value):
                shown = name if known else "…"
                raise SpecError(
                    f"endpoint.headers.{shown}: {_REFUSAL}, or endpoint.headers_env",
                    key=f"endpoint.headers.{shown}",
                    found=HIDDEN,
                    allowed=f"{ALLOWED}, or endpoint.headers_env",
                )
    names = [("endpoint.api_key_env", entry.get("api_key_env"))]
    if isinstance(entry.get("headers_env"), dict):
        names += [("endpoint.headers_env", value) for value in entry["headers_env"].values()]
    for key, value in names:
        if value is not None and not _is_env_name(value):
            raise _unnamed(key)
    command = entry.get("api_key_command")
    if isinstance(command, str) and _KEY_IN_COMMAND.search(command):
        raise _refused("endpoint.api_key_command")
    path = entry.get("api_key_file")
    if _is_key_itself(path):
        raise _refused("endpoint.api_key_file")


def refuse_key_for_name(variable: str) -> None:
    """Raise SpecError where `--api-key-env` was given what names no variable: it could be the key itself, and is not repeated."""
    if not _is_env_name(variable):
        raise _unnamed("--api-key-env")


def key_in(variable: str, environ: Mapping[str, str]) -> str:
    """The key that the variable named by `--api-key-env` holds. Raises SpecError, which never shows it."""
    refuse_key_for_name(variable)
    key = environ.get(variable, "").strip()
    if not key:
        raise SpecError(f"--api-key-env names {variable[:60]}, which is not set", key="--api-key-env")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SpecError(f"--api-key-env: {variable[:60]} holds what no HTTP header can carry", key="--api-key-env")
    return key


def _refuse_names(section: str, table: dict[str, Any]) -> None:
    for name in table:
        if name.lower().replace("-", "_") in _FORBIDDEN_KEYS:
            raise _refused(f"{section}.{name}" if section else name)


def _unnamed(key: str) -> SpecError:
    return SpecError(
        f"{key}: found no name of an environment variable (not shown: it could be a key); such a name is letters, digits and _",
        key=key,
        found=HIDDEN,
        allowed="the name of an environment variable",
    )


def _refused(key: str) -> SpecError:
    return SpecError(f"{key}: {_REFUSAL}", key=key, found=HIDDEN, allowed=ALLOWED)


def _url_holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return "@" in url
    if "@" in parts.netloc or any(looks_secret(name, value) or name.lower() in _SECRET_QUERIES for name, value in query):
        return True
    return any(map(is_key, [*parts.path.split("/"), parts.fragment]))


def _is_key_itself(value: Any) -> bool:
    return isinstance(value, str) and is_key(value)


def _is_env_name(value: Any) -> bool:
    if not isinstance(value, str):
        return True  # a wrong type is refused by its own message
    return bool(_ENV_NAME.fullmatch(value)) and not _is_key_itself(value)
