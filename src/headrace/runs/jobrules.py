"""Rules of a job that no single key can tell: what excludes what, and what this release does not serve."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from headrace import spec as words
from headrace.errors import NotYetError, SpecError
from headrace.policy.price import MILLION, self_hosted
from headrace.runs.jobfaults import shown
from headrace.runs.slicerules import check_slices
from headrace.spec import ConcurrencySpec, EndpointSpec, JobSpec, PricesSpec

OUTPUT_SUFFIXES = (".jsonl", ".csv", ".parquet")
_FOREIGN_TO_LOCAL = (
    "api_key_env",
    "api_key_file",
    "api_key_command",
    "headers",
    "headers_env",
    "verify",
    "model",
    "max_tokens_field",
    "priority",
)
# The ways to say what tokens cost, and how many keys of each, from the first, must be there.
_PRICE_FORMS: dict[tuple[str, ...], int] = {
    ("input_per_million", "output_per_million", "cached_input_per_million", "reasoning_per_million", "per_request"): 2,
    ("gpu_hour", "tokens_per_second", "gpus"): 2,
    ("file",): 1,
}
_LACKING = {
    "gpu_hour": "what one GPU costs for an hour, in USD",
    "tokens_per_second": "what the server delivers in a second, prompts and answers together",
}
_PROMPT_FORMS = ("user", "messages", "prompt", "input")


def check_rules(spec: JobSpec, base: Path) -> None:
    """Raise SpecError or NotYetError for the first rule that the job breaks."""
    _refuse_unserved(spec)
    _check_input(spec)
    _check_prompt(spec)
    _check_answer(spec)
    check_slices(spec)
    _check_endpoints(spec)
    _check_prices(spec.prices)
    _check_quality(spec)
    _check_output(spec, base)


def _not_yet(key: str, form: str = "", instead: str = "") -> NotYetError:
    shown = f"`{key}` {form}" if form else f"`{key}`"
    hint = f"; write {instead}" if instead else ""
    return NotYetError(f"{shown} is not served by this release{hint}", key=key, allowed=instead or "its default")


def _refuse_unserved(spec: JobSpec) -> None:
    for key in words.NOT_YET:
        values, default = _values_and_default(spec, key)
        if any(value != default for value in values):
            raise _not_yet(key)
    if spec.model.route in {"responses", "embeddings"}:
        raise NotYetError(
            f'`model.route` = "{spec.model.route}" is not served by this release', key="model.route", allowed="chat, completions"
        )


def _values_and_default(spec: JobSpec, key: str) -> tuple[list[Any], Any]:
    """What the job says for a key, of each endpoint where it is one of theirs."""
    section, _, name = key.partition(".")
    part: Any = getattr(spec, section)
    if not name:
        return [part], type(spec).model_fields[section].default
    parts = part if isinstance(part, list) else [part]
    model: type[BaseModel] = type(parts[0])
    attribute = next(at for at, field in model.model_fields.items() if name in {at, field.alias})
    values = [getattr(one, attribute) for one in parts]
    return values, model.model_fields[attribute].get_default(call_default_factory=True)


def _check_quality(spec: JobSpec) -> None:
    quality = spec.quality
    if quality.gate is not None and quality.evalset is None:
        raise SpecError("quality.gate needs quality.evalset, the records that it is held against", key="quality.gate")
    if quality.evalset is not None and spec.slice.split is not None:
        raise _not_yet("quality.evalset", "with slice.split")


def _check_input(spec: JobSpec) -> None:
    if spec.input.query is not None and not spec.input.path.startswith("sqlite:"):
        raise SpecError(
            "input.query: found with an input.path that is no database; it belongs to sqlite:///x.db",
            key="input.query",
            allowed='input.path = "sqlite:///x.db"',
        )


def _check_prompt(spec: JobSpec) -> None:
    prompt, route = spec.prompt, spec.model.route
    written = [form for form in _PROMPT_FORMS if getattr(prompt, form) is not None]
    fitting = ("prompt",) if route == "completions" else ("user", "messages")
    wanted = "prompt.prompt" if route == "completions" else "prompt.user, prompt.user_file or prompt.messages"
    if len(written) != 1 or written[0] not in fitting:
        found = ", ".join(f"prompt.{form}" for form in written) or "none"
        raise SpecError(
            f"prompt: found {found}; the route {route} takes exactly one of {wanted}",
            key="prompt",
            found=found,
            allowed=f"exactly one of {wanted}",
        )
    if route == "completions" and prompt.system is not None:
        raise SpecError(
            "prompt.system: found with the route completions, which has no system message; put it into prompt.prompt",
            key="prompt.system",
            allowed="nothing",
        )
    if prompt.messages is not None and prompt.system is not None:
        raise SpecError(
            "prompt.system: found beside prompt.messages; put it there as the message with the role system",
            key="prompt.system",
            allowed="nothing",
        )
    for place, message in enumerate(prompt.messages or ()):
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str | list):
            raise SpecError(
                f"prompt.messages.{place}: a message has a role and a content (text, or a list of parts)",
                key=f"prompt.messages.{place}",
                allowed="a role and a content",
            )
    if prompt.messages == []:
        raise SpecError("prompt.messages: found an empty list; allowed: at least one message", key="prompt.messages")


def _check_answer(spec: JobSpec) -> None:
    answer = spec.answer
    if answer.schema_ is not None and answer.labels is not None:
        raise SpecError("answer: schema and labels exclude each other; labels are short for a schema", key="answer.labels")
    if answer.field is not None and answer.schema_ is None:
        raise SpecError(
            "answer.field: needs answer.schema, so that there are fields", key="answer.field", allowed="answer.schema"
        )
    labels = answer.labels or []
    if not all(label.strip() for label in labels):
        raise SpecError(
            "answer.labels: found an empty label; allowed: labels with text", key="answer.labels", found="an empty label"
        )
    if len({label.strip() for label in labels}) != len(labels):
        raise SpecError(
            "answer.labels: found a label twice; allowed: labels that differ", key="answer.labels", found="a label twice"
        )
    if answer.method == "score" and not labels:
        raise SpecError(
            'answer.method: "score" chooses among answer.labels, and there are none', key="answer.method", allowed="answer.labels"
        )
    if answer.calibrate and answer.method != "score":
        raise SpecError(
            'answer.calibrate: works on log-probabilities; it needs answer.method = "score"',
            key="answer.calibrate",
            allowed='answer.method = "score"',
        )
    if answer.on_truncated == "keep" and (answer.schema_ is not None or labels):
        raise SpecError(
            'answer.on_truncated: "keep" is for text; a cut answer cannot be checked against a schema or labels',
            key="answer.on_truncated",
            found='"keep"',
            allowed='"quarantine"',
        )


def _check_endpoints(spec: JobSpec) -> None:
    local = [endpoint for endpoint in spec.endpoint if endpoint.url == "local"]
    if len(local) > 1:
        raise SpecError(
            'endpoint.url: found "local" more than once; one embedded model uses all processor cores',
            key="endpoint.url", found='"local" more than once', allowed='"local" once',
        )  # fmt: skip
    if spec.model.weights is not None and not local:
        raise SpecError(
            'model.weights: needs endpoint.url = "local"; another server loads its own', key="model.weights", allowed="nothing"
        )
    for endpoint in spec.endpoint:
        _check_endpoint(endpoint)


def _check_endpoint(endpoint: EndpointSpec) -> None:
    tuned = endpoint.concurrency
    if isinstance(tuned, ConcurrencySpec) and not tuned.min <= tuned.start <= tuned.max:
        raise SpecError(
            f"endpoint.concurrency: found min {tuned.min}, start {tuned.start}, max {tuned.max}; allowed: min ≤ start ≤ max",
            key="endpoint.concurrency",
            found=f"min {tuned.min}, start {tuned.start}, max {tuned.max}",
            allowed="min ≤ start ≤ max",
        )
    if endpoint.url == "local":
        _check_local(endpoint)
        return
    try:
        parts = urlsplit(endpoint.url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or any(char.isspace() for char in endpoint.url):
        found = shown("endpoint.url", endpoint.url)
        raise SpecError(
            f'endpoint.url: found {found}; allowed: http(s)://host/v1, or "local"',
            key="endpoint.url",
            found=found,
            allowed='http(s)://host/v1, or "local"',
        )
    ways = [name for name in ("api_key_env", "api_key_file", "api_key_command") if getattr(endpoint, name) is not None]
    if len(ways) > 1:
        raise SpecError(f"endpoint: found {' and '.join(ways)}; allowed: one way to the key", key=f"endpoint.{ways[1]}")


def _check_local(endpoint: EndpointSpec) -> None:
    """The embedded model's server is ours: it has a key of its own and nothing before it."""
    for name in _FOREIGN_TO_LOCAL:
        field = EndpointSpec.model_fields[name]
        if getattr(endpoint, name) != field.get_default(call_default_factory=True):
            raise SpecError(
                f'endpoint.{name}: makes no sense with endpoint.url = "local", whose server belongs to the run; leave it out',
                key=f"endpoint.{name}",
                allowed="nothing",
            )


def _check_prices(prices: PricesSpec | None) -> None:
    """One way to say them, and all that it needs: half a price would make every cost unknown."""
    if prices is None:
        return
    written = {name: value for name, value in prices.model_dump().items() if value is not None}
    forms = [form for form in _PRICE_FORMS if any(key in written for key in form)]
    if len(forms) != 1:
        found = " and ".join(next(key for key in form if key in written) for form in forms) or "none of them"
        raise SpecError(
            f"prices: found {found}; allowed: prices per million, gpu_hour with tokens_per_second, or a file",
            key="prices",
            found=found,
            allowed="one of input_per_million, gpu_hour, file",
        )
    (form,) = forms
    lacking = [key for key in form[: _PRICE_FORMS[form]] if key not in written]
    if lacking:
        raise SpecError(
            f"prices.{lacking[0]} is missing beside {', '.join(key for key in form if key in written)}; "
            + _LACKING.get(lacking[0], "write 0 where it is free"),
            key=f"prices.{lacking[0]}",
            found="nothing",
            allowed="a number",
        )
    if prices.gpu_hour is not None and prices.tokens_per_second is not None:
        each = self_hosted(prices.gpu_hour, prices.gpus or 1, prices.tokens_per_second) * MILLION
        if each > words.DEAREST:
            raise SpecError(
                f"prices.tokens_per_second: makes {each:g} USD for a million tokens; allowed: {words.DEAREST:,.0f} at most",
                key="prices.tokens_per_second",
                found=f"{prices.tokens_per_second:g}",
                allowed="what the server delivers in a second",
            )
    if "model" in written and "file" not in written:
        raise SpecError(
            "prices.model: names an entry of a list; it belongs to prices.file", key="prices.model", allowed="prices.file"
        )


def _check_output(spec: JobSpec, base: Path) -> None:
    path = spec.output.path
    if Path(path).suffix.lower() not in OUTPUT_SUFFIXES:
        allowed = "a path that ends in .jsonl, .csv or .parquet"
        found = shown("output.path", path)
        raise SpecError(f"output.path: found {found}; allowed: {allowed}", key="output.path", found=found, allowed=allowed)
    source = spec.input.path
    output = base.joinpath(path).absolute()
    if source.startswith("sqlite:"):
        return
    if _same(output, base.joinpath(source).absolute()):
        raise SpecError("output.path: found the input itself; allowed: another file", key="output.path", found="the input's path")
    if base.joinpath(source).is_dir() and base.joinpath(source).resolve() in output.resolve().parents:
        raise SpecError(
            "output.path: found inside the folder that input.path names, so that the next run would read it; "
            "allowed: a path outside of it",
            key="output.path",
            found="a path inside the input's folder",
            allowed="a path outside of it",
        )
    if any(char in source for char in "*?[") and fnmatch.fnmatch(str(output), str(base.joinpath(source).absolute())):
        raise SpecError(
            "output.path: input.path's pattern matches it, so that the next run would read it; allowed: another name or folder",
            key="output.path",
            found="a path that input.path matches",
            allowed="another name or folder",
        )


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError):
        return False
