"""What tells reasons apart: a message without what differs from record to record."""

from __future__ import annotations

import re

_REJECT_DETAIL = re.compile(r"[0-9]+|;.*|\(.*|'[^']*'.*has.*", re.DOTALL)
_NUMBER = re.compile(r"(?<!HTTP )[0-9]+")  # 400 and 404 are two reasons; 310 and 311 tokens are one


def shape_of(reason: str) -> str:
    """A reject's reason without what differs from record to record: equal for those that are rejected for one reason."""
    return _REJECT_DETAIL.sub("#", reason)


def failure_shape(message: str) -> str:
    """A failure's message with its numbers masked, but for the HTTP status: servers count each prompt in their refusals."""
    return _NUMBER.sub("#", message)
