"""Phrases by which servers refuse: which field, the schema, the length, the content, the model, for money."""

from __future__ import annotations

import re

from headrace.endpoints.envelopes import ServerError
from headrace.endpoints.phrases import Phrases

_UNSUPPORTED = re.compile(
    r"unsupported|not supported|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected|extra inputs|extra_forbidden"
    r"|does not support|doesn't support|unavailable|not available|not implemented|invalid (?:value|type)"
    r"|(?:must|should) be (?:one of|either|'?text)"
)
_UNKNOWN_FIELD = re.compile(
    r"unsupported|not supported|unknown|unrecogni[sz]ed|not permitted|unexpected|extra inputs|extra_forbidden"
    r"|max_completion_tokens"
)
_MAX_TOKENS = Phrases("max_tokens", r"\bmax_tokens\b")
_RESPONSE_FORMAT = Phrases("response|json|output", r"response[_ ]format|json_schema|structured[_ ]output|guided[_ ]json")
_SCHEMA = Phrases(
    "schema|grammar|additionalproperties|$ref",
    r"\binvalid (?:json[ _-]?)?schema\b|invalid_json_schema|\bgrammar\b|json_schema\.schema|schema (?:is )?invalid"
    r"|schema (?:contains|uses|has|is too|must|validation)|additionalproperties|schema conversion|unsupported (?:json )?schema"
    r"|(?:failed|unable|could not|cannot|error)[^.]{0,60}\bschema\b|\$ref|schema exceeds",
)
_CONTEXT = Phrases(
    "context|prompt|input|token|length",
    r"context[_ ]length|context[_ ]window|context[_ ]size|context[_ ]limit|exceed_context|maximum model length|maximum context"
    r"|prompt is too long|prompt (?:is|was) longer|input (?:is |length )?too long|input token length too long"
    r"|exceeded model token limit|range of input length|token count exceeds|(?:input|prompt)[^.]{0,60}longer than"
    r"|input length exceeds|input tokens exceed|exceeds the maximum number of tokens|tokens \+ `?max_new_tokens"
    r"|reduce the length of|string_above_max_length|too many input tokens|maximum input length|context limit",
)
_CONTENT = Phrases(
    "content|polic|inspection|moderation|flagged|guardrail|safety|image",
    r"content[_ ]?filter|responsibleaipolicy|content management policy|data_?inspection_?failed|\bmoderation\b|\bflagged\b"
    r"|guardrail|safety system|content[_ ]policy|usage polic(?:y|ies)|inappropriate content|prohibited_content|image_safety",
)
_MODEL = Phrases(
    "model|deployment|endpoints",
    r"model_not_found|modelnotfound|deploymentnotfound|model_not_available|invalid_model|not a valid model|model not exist"
    r"|\bmodel\b.{0,200}?(?:does not exist|doesn't exist|not found|not available|is not supported|could not be found|no access)"
    r"|not found[^.]{0,40}\bmodel\b|unknown model|no such model|(?:does not|not) have access to (?:the )?model"
    r"|deployment for this resource does not exist|no endpoints found|not_found_error model:",
)
_MONEY = Phrases(
    "arrearage|credit|balance|billing|spend|quota|usage_limit|payment",
    r"arrearage|credit balance|insufficient[_ ]balance|insufficient[_ ]credits|billing_error|billing_hard_limit"
    r"|spend(?:ing)?[_ ]limit"
    r"|credit_balance_exhausted|allocationquota\.freetieronly|exceeded_current_quota|usage_limit_exceeded|payment required",
)
_QUOTA_CODE = Phrases("quota", r"\binsufficient_quota\b|you exceeded your current quota, please check your plan")
_PRIORITY = re.compile(r"\bpriority\b")
_NO_PRIORITY = re.compile(r"disabled|not enabled|without a priority")
_DAILY = re.compile(r"perday|limit: 0\b")
_KEY = Phrases(
    "api|authentication_error",
    r"api key not valid|api_key_invalid|invalid api[_ -]?key|invalid_api_key|incorrect api key|authentication_error",
)
_OVERLOAD = re.compile(
    r"overloaded|too many pending|maximum pending|server (?:is )?busy|currently busy|queue is full|no capacity|capacity_exceeded"
    r"|at capacity|too many requests|try again later, the server"
)
_NO_IMAGES = Phrases(
    "image|multimodal|vision|audio",
    r"image input is not supported|does not support (?:image|multimodal|vision|audio)|audio input is not supported",
)
_TOO_LARGE = Phrases("large", r"request_too_large|payload too large|entity too large|body (?:is )?too large|request too large")


def refuses_max_tokens(error: ServerError) -> bool:
    """The field itself is unknown to the model, not its value."""
    words = error.words
    return bool(_MAX_TOKENS.found(words) and _UNKNOWN_FIELD.search(words)) and not too_long(error)


def refuses_schema(error: ServerError) -> bool:
    """The schema is at fault, not that there is one."""
    return bool(_SCHEMA.found(error.words))


def refuses_response_format(error: ServerError) -> bool:
    """The server knows no response_format, or not of this type."""
    words = error.words
    return bool(_RESPONSE_FORMAT.found(words) and _UNSUPPORTED.search(words))


def refuses_logprobs(error: ServerError) -> bool:
    """The server gives no log-probabilities, or not so many."""
    return "logprobs" in error.words


def refuses_priority(error: ServerError) -> bool:
    """The server orders nothing by priority and says so, or does not know the field."""
    words = error.words
    return bool(_PRIORITY.search(words) and (_NO_PRIORITY.search(words) or _UNSUPPORTED.search(words)))


def too_long(error: ServerError) -> bool:
    return bool(_CONTEXT.found(error.words))


def filtered(error: ServerError) -> bool:
    return bool(_CONTENT.found(error.words))


def misses_model(error: ServerError, name: str = "") -> bool:
    """The model is unknown: by the usual phrases, or because a structured error says its name."""
    words = error.words
    named = len(name) > 3 and error.raw is not None and name.lower() in words
    return named or bool(_MODEL.found(words))


def wants_money(error: ServerError) -> bool:
    return bool(_MONEY.found(error.words))


def out_of_quota(error: ServerError) -> bool:
    """What ends only with a payment, or with the day."""
    words = error.words
    return bool(_QUOTA_CODE.found(words) or _MONEY.found(words) or _DAILY.search(f"{words} {_quota_ids(error)}"))


def refuses_key(error: ServerError) -> bool:
    return bool(_KEY.found(error.words))


def overloaded(error: ServerError) -> bool:
    return bool(_OVERLOAD.search(error.words))


def refuses_images(error: ServerError) -> bool:
    return bool(_NO_IMAGES.found(error.words))


def too_large(error: ServerError) -> bool:
    return bool(_TOO_LARGE.found(error.words))


def _quota_ids(error: ServerError) -> str:
    details = error.raw.get("details") if isinstance(error.raw, dict) else None
    if not isinstance(details, list):
        return ""
    violations = [
        violation for detail in details[:10] if isinstance(detail, dict) for violation in _listed(detail.get("violations"))
    ]
    return " ".join(str(violation.get("quotaId", ""))[:200] for violation in violations if isinstance(violation, dict)).lower()


def _listed(value: object) -> list[object]:
    return value[:10] if isinstance(value, list) else []
