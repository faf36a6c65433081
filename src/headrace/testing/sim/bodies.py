"""The bodies that the simulated endpoint answers with, as OpenAI writes them, and the plan they are written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace import canon
from headrace.testing.replies import Drawn, Prompt
from headrace.testing.sim.asking import RefusedError

PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
_TYPES = {401: "authentication_error", 402: "insufficient_quota", 429: "rate_limit_error"}


@dataclass(slots=True)
class Plan:
    """What a request gets. `drawn`: an answer to be worked for; else `body` goes out as it is.

    `number` counts requests from 1. `action` is what happens on the wire instead of, or to, the reply. `delay_s` passes
    before anything else.
    """

    number: int
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    action: str | None = None
    delay_s: float = 0.0
    prompt: Prompt | None = None
    drawn: Drawn | None = None
    chat: bool = True
    model: str = ""
    prefixes: Sequence[int] = ()
    likeliest: Sequence[tuple[str, float]] = ()
    timing: tuple[float, float] | None = None  # seconds for prompt and answer, where the style is one that tells them


def completion(plan: Plan, cached: int) -> bytes:
    """The body of an answer, as OpenAI writes it, with llama.cpp's timings where they are told."""
    assert plan.prompt is not None
    assert plan.drawn is not None
    content, finish, count = plan.drawn
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
    if plan.likeliest:
        choice["logprobs"] = _logprobs(plan.likeliest, chat=plan.chat)
    if plan.chat:
        choice["message"] = {"role": "assistant", "content": content}
    else:
        choice["text"] = content
    return _encode(
        {
            "id": f"{'chatcmpl' if plan.chat else 'cmpl'}-{plan.number}",
            "object": "chat.completion" if plan.chat else "text_completion",
            "created": 0,
            "model": plan.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": plan.prompt.tokens,
                "completion_tokens": count,
                "total_tokens": plan.prompt.tokens + count,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
            **({} if plan.timing is None else {"timings": _timings(*plan.timing)}),
        }
    )


def _timings(prompt_s: float, answer_s: float) -> dict[str, float]:
    return {"prompt_ms": 1000 * prompt_s, "predicted_ms": 1000 * answer_s}


def _logprobs(likeliest: Sequence[tuple[str, float]], *, chat: bool) -> dict[str, Any]:
    """The first token's log-probabilities; those of later tokens are not simulated."""
    token, value = likeliest[0]
    if not chat:
        return {"tokens": [token], "token_logprobs": [value], "top_logprobs": [dict(likeliest)], "text_offset": [0]}
    top = [{"token": token, "logprob": value, "bytes": list(token.encode())} for token, value in likeliest]
    return {"content": [{**top[0], "top_logprobs": top}]}


def events(body: bytes) -> bytes:
    """An answer's body as a stream of server-sent events: three deltas, the usage, [DONE]."""
    whole = canon.decode(body)
    choice = whole["choices"][0]
    chat = "message" in choice
    text = choice["message"]["content"] if chat else choice["text"]
    third = -(-len(text) // 3) or 1
    lines = []
    base = {"id": whole["id"], "object": "chat.completion.chunk" if chat else "text_completion", "model": whole["model"]}
    for start in range(0, max(1, len(text)), third):
        part = text[start : start + third]
        said = {"delta": {"content": part}} if chat else {"text": part}
        last = start + third >= len(text)
        lines.append({**base, "choices": [{"index": 0, **said, "finish_reason": choice["finish_reason"] if last else None}]})
    lines.append({**base, "choices": [], "usage": whole["usage"]})
    return b"".join(b"data: " + _encode(line) + b"\n\n" for line in lines) + b"data: [DONE]\n\n"


def error_body(refused: RefusedError) -> bytes:
    kind = _TYPES.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
    error = {"message": str(refused), "type": kind, "param": refused.param, "code": refused.code}
    return _encode({"error": error})


def _encode(value: dict[str, Any]) -> bytes:
    """No float in it is longer than six digits, so orjson can only refuse (a lone surrogate), never change."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return canon.encode(value)
