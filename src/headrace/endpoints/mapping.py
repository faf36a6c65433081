"""THE error mapping: what a reply or a lost connection means. The HTTP status decides, the body refines within its class.

Pure. Ordered by status; phrases are in refusals.py. A 404, 405 or 3xx that names no model says that
the address is wrong as long as the endpoint has never answered; afterwards it is a passing fault of something in between.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.endpoints import refusals
from headrace.endpoints.envelopes import ServerError
from headrace.endpoints.transport import Reason, TransportError
from headrace.values import Failure, Kind, Sent

_AMBIGUOUS = frozenset({408, 504, 524})
_OVERLOADED = frozenset({498, 503, 529})
_RATE_HOSTS = ("dashscope", "aliyuncs.com")  # there `insufficient_quota` clears within a minute
_TRANSIENT_4XX = frozenset({409, 421, 423, 424, 425, 499})
_INNER = (  # (words in type or code, the status that they stand for) of errors inside a 200
    ("insufficient_quota", 429),
    ("rate_limit", 429),
    ("ratelimit", 429),
    ("throttl", 429),
    ("resource_exhausted", 429),
    ("overloaded", 503),
    ("unavailable", 503),
    ("timeout", 504),
    ("deadline", 504),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("notfound", 404),
    ("invalid_request", 400),
    ("badrequest", 400),
    ("content_filter", 400),
    ("context_length", 400),
)


class Circumstances(Struct, frozen=True):
    """What beside the reply decides: who answers, the model that was asked for, and whether the endpoint never answered yet."""

    host: str = ""
    model: str = ""
    fresh: bool = False


UNKNOWN = Circumstances()


def kind_of(status: int, error: ServerError, at: Circumstances = UNKNOWN, wait_s: float | None = None) -> Kind:
    """The kind of an HTTP error. `wait_s`: the wait that the reply named."""
    if status >= 500:
        return _of_5xx(status, error)
    if status in (401, 407):
        return Kind.AUTH
    if status == 402:
        return Kind.RATE_LIMITED if wait_s is not None else Kind.QUOTA
    if status == 403:
        return _of_403(error)
    if status == 408:
        return Kind.TIMEOUT
    if status == 429:
        return _of_429(error, at.host)
    if status in _OVERLOADED:
        return Kind.OVERLOADED
    if 300 <= status < 400 or status in (404, 405, 410):
        return _of_address(status, error, at)
    if status == 413:
        return Kind.CONTEXT_TOO_LONG if refusals.too_long(error) else Kind.TOO_LARGE
    if status in _TRANSIENT_4XX:
        return Kind.SERVER_ERROR
    if 400 <= status < 500:
        return _of_400(error)
    return Kind.PROTOCOL


def _of_5xx(status: int, error: ServerError) -> Kind:
    if status in _AMBIGUOUS:
        return Kind.TIMEOUT
    if status in _OVERLOADED:
        return Kind.OVERLOADED
    if status == 501 and (error.type or error.code):
        return Kind.BAD_REQUEST  # said by the model's server itself, not by something in between
    if status == 500 and refusals.too_long(error):
        return Kind.CONTEXT_TOO_LONG
    if status == 500 and refusals.refuses_images(error):
        return Kind.BAD_REQUEST
    if status == 500 and refusals.overloaded(error):
        return Kind.OVERLOADED
    return Kind.SERVER_ERROR


def _of_403(error: ServerError) -> Kind:
    if refusals.too_long(error):
        return Kind.CONTEXT_TOO_LONG
    if refusals.filtered(error):
        return Kind.CONTENT_FILTER
    if refusals.wants_money(error):
        return Kind.QUOTA
    return Kind.MODEL_MISSING if refusals.misses_model(error) else Kind.AUTH


def _of_429(error: ServerError, host: str) -> Kind:
    if "overloaded" in error.words:
        return Kind.OVERLOADED
    if any(name in host for name in _RATE_HOSTS) and not refusals.wants_money(error):
        return Kind.RATE_LIMITED
    return Kind.QUOTA if refusals.out_of_quota(error) else Kind.RATE_LIMITED


def _of_address(status: int, error: ServerError, at: Circumstances) -> Kind:
    if status in (404, 410) and refusals.misses_model(error, at.model):
        return Kind.MODEL_MISSING
    if at.fresh:
        return Kind.BAD_ENDPOINT
    return Kind.SERVER_ERROR if status >= 400 else Kind.PROTOCOL


def _of_400(error: ServerError) -> Kind:
    if refusals.too_long(error):
        return Kind.CONTEXT_TOO_LONG
    if refusals.filtered(error):
        return Kind.CONTENT_FILTER
    if refusals.wants_money(error):
        return Kind.QUOTA
    if refusals.refuses_key(error):
        return Kind.AUTH
    if refusals.misses_model(error):
        return Kind.MODEL_MISSING
    return Kind.TOO_LARGE if refusals.too_large(error) else Kind.BAD_REQUEST


def inner_status(error: ServerError) -> int:
    """The status that an error inside a 200 stands for: its own number, else its words, else 500."""
    if error.status is not None:
        return error.status
    words = f"{error.type or ''} {error.code or ''}".lower()
    for word, status in _INNER:
        if word in words:
            return status
    return 400 if refusals.too_long(error) or refusals.filtered(error) else 500


def sent_of(status: int) -> Sent:
    """408, 504 and 524 say that somebody on the way gave up, not that nothing was generated."""
    return Sent.MAYBE if status in _AMBIGUOUS else Sent.YES


def describe(status: int, error: ServerError, url: str, kind: Kind) -> str:
    """One line: the status, the server's own words, and what to look at where the address is in doubt."""
    code = error.code or error.type
    param = f" (param {error.param})" if error.param else ""
    head = f"HTTP {status}{f' {code}' if code else ''}{param}"
    if kind is Kind.BAD_ENDPOINT:
        return in_doubt(f"{head} from {url}", error.message)
    return f"{head}: {error.message}" if error.message else head


def in_doubt(head: str, said: str | None) -> str:
    """What came, what was said with it, and that the address should be looked at."""
    words = f"{head}: {said.rstrip('.')}" if said else head
    return f"{words}; is endpoint.url right (does it miss /v1)?"


def lost(error: TransportError, url: str, *, fresh: bool) -> Failure:
    """The failure of a request whose reply never came. The message is not redacted yet."""
    reason, message = error.reason, f"{url}: {error}"
    if reason in (Reason.DNS, Reason.CERTIFICATE):
        return Failure(Kind.BAD_ENDPOINT if fresh else Kind.CONNECTION, message, error.sent)
    if reason is Reason.REFUSED:
        return Failure(Kind.CONNECTION, message, error.sent, refused=True)
    if reason is Reason.TIMEOUT:
        return Failure(Kind.TIMEOUT, str(error), error.sent)
    if reason in (Reason.PROTOCOL, Reason.TOO_LARGE):
        return Failure(Kind.PROTOCOL, str(error), error.sent)
    return Failure(Kind.CONNECTION, str(error), error.sent)
