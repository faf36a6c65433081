"""The job file as frozen models: parsed, checked, split into content and operating keys. Secrets never stand in it.

Defaults are the contract's. A key that stands in the contract and is not served yet is accepted at its default and
refused otherwise, with one line (`NOT_YET`).
"""

from __future__ import annotations

import math
import re
import sys
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from headrace import canon

SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|min|s|m|h|d)\s*")
_AMOUNT = re.compile(r"\s*([0-9][0-9_ ]{0,30})\s*(chars?|tokens?)\s*")
_LARGEST_AMOUNT = 10**12  # characters or tokens: no record is so long
_MOST_DIGITS = 20
_LONGEST_S = sys.float_info.max
ENDPOINT_LIST = "endpoint"  # `prices = "endpoint"` is short for `file` of that name: the endpoint's own list


def parse_size(value: Any) -> Any:
    """Bytes from "10 MB", "4 MiB" or a plain number."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None or match[2].lower() not in SIZE_UNITS:
            raise ValueError('a size such as "10 MB" or "4 MiB"')
        bytes_ = float(match[1]) * SIZE_UNITS[match[2].lower()]
        value = round(bytes_) if math.isfinite(bytes_) else None
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError('a size such as "10 MB" or "4 MiB"')
    return value


def parse_duration(value: Any) -> Any:
    """Seconds from "30m", "1h30m", "45 s" or a plain number; positive and finite."""
    if isinstance(value, str):
        text = value.strip()
        parts = _DURATION_PART.findall(text)
        if not parts or _DURATION_PART.sub("", text):
            raise ValueError('a duration such as "30s", "10m" or "1h30m", or a number of seconds')
        value = sum(float(number) * DURATION_UNITS[unit] for number, unit in parts)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_S:
        raise ValueError('a duration such as "30s", "10m" or "1h30m", or a number of seconds, above 0')
    return float(value)


def parse_amount(value: Any) -> Any:
    """("chars" | "tokens", count) from "2000 chars" or "800 tokens"."""
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < _count(match[1]) <= _LARGEST_AMOUNT:
        raise ValueError('an amount such as "2000 chars" or "800 tokens"')
    return value


def parse_overlap(value: Any) -> Any:
    """An amount; none at all is one too."""
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or _count(match[1]) > _LARGEST_AMOUNT:
        raise ValueError('an amount such as "200 chars" or "100 tokens", or "0 chars"')
    return value


def amount(value: str) -> tuple[Literal["chars", "tokens"], int]:
    """Split a checked amount."""
    match = _AMOUNT.fullmatch(value)
    assert match is not None
    return ("chars" if match[2].startswith("char") else "tokens", _count(match[1]))


def _count(written: str) -> int:
    """A number of an amount; one of more digits than any text has characters is only too large."""
    return int(re.sub("[_ ]", "", written).lstrip("0")[:_MOST_DIGITS] or 0)


Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": ["string", "integer"], "examples": ["10 MB"]})]
Duration = Annotated[
    float, BeforeValidator(parse_duration), WithJsonSchema({"type": ["string", "number"], "examples": ["30m", "1h30m", 45]})
]
Amount = Annotated[
    str, BeforeValidator(parse_amount), WithJsonSchema({"type": "string", "examples": ["2000 chars", "800 tokens"]})
]
Overlap = Annotated[
    str, BeforeValidator(parse_overlap), WithJsonSchema({"type": "string", "examples": ["200 chars", "100 tokens"]})
]


def parse_attempt_timeout(value: Any) -> Any:
    if value == "auto":
        return "auto"
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError('"auto" or a number of seconds above 0') from None


AttemptTimeout = Annotated[
    float | Literal["auto"],
    BeforeValidator(parse_attempt_timeout),
    WithJsonSchema({"type": ["string", "number"], "examples": ["auto", 120]}),
]


class Section(BaseModel):
    """A part of the job file: frozen, unknown keys refused, values never shown in errors or repr of secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, strict=True, protected_namespaces=())


class InputSpec(Section):
    path: str = Field(
        description="The input: a file or a glob (.jsonl .ndjson .json .csv .tsv .parquet, the text forms also .gz or .zst), "
        "a folder of text files (fields `path` and `text`), or sqlite:///x.db with `query`. Relative to the job file."
    )
    id: str | None = Field(None, description="The field that names a record; without it the record's number. Need not be unique.")
    limit: Annotated[int, Field(ge=1)] | None = Field(None, description="Read only so many records (of those that pass `where`).")
    where: str | None = Field(None, description="A Jinja expression over the record; what it excludes is no item, only counted.")
    dedupe: bool = Field(True, description="Ask equal requests once; false: every record is asked by itself.")
    max_record: Size = Field(10_000_000, description="A larger record is rejected.")
    query: str | None = Field(
        None, description="The one SELECT whose rows are the records of a sqlite:/// input; its columns are the fields."
    )


class ReduceSpec(Section):
    prompt: str = Field(
        description="What joins answers: a template over `answers` (a list), `level`, `last` and the record's fields that were "
        "not divided. Asked in as many levels as it takes until one answer is left."
    )


class SplitSpec(Section):
    size: Amount = Field(description="A text field that the prompt prints is divided where it is longer than this.")
    overlap: Overlap | None = Field(
        None, description="So much of a piece stands at the next one's beginning too: in the unit of `size`, at most half of it."
    )
    join: Literal["concat", "list", "vote"] | ReduceSpec = Field(
        "concat",
        description='How the pieces\' answers become the item\'s: "concat", "list", "vote" (the answer that most of them gave), '
        'or { prompt = "…" }: a prompt over the answers.',
    )


class SliceSpec(Section):
    truncate: Amount | None = Field(
        None,
        description="Cut each text field that the prompt prints to this length, at the end of a sentence or word where one is "
        "near; counted and marked. Tokens are estimated.",
    )
    split: SplitSpec | None = Field(
        None, description="Divide long texts: { size, overlap, join }. Each piece is asked by itself, and the answers are joined."
    )
    max_input: Amount | None = Field(
        None, description="Reject records whose prompt is longer: with what `truncate` leaves, before anything is divided."
    )


class PromptSpec(Section):
    system: str | None = Field(None, description="The system message, a template like `user`.")
    user: str | None = Field(None, description="The user message: Jinja2, sandboxed; an undefined field rejects that record.")
    user_file: str | None = Field(None, description="A file that holds the user message.")
    messages: list[dict[str, Any]] | None = Field(None, description="A whole chat with roles, for few-shot examples.")
    prompt: str | None = Field(None, description='The prompt of route = "completions".')
    input: str | None = Field(None, description='The text of route = "embeddings".')
    version: str | None = Field(None, description="A name for this prompt; its hash is always recorded.")


class ModelSpec(Section):
    name: str = Field(description="The model's name as the endpoint knows it.")
    route: Literal["chat", "completions", "responses", "embeddings"] = Field(
        "chat", description="Which route of the API is asked."
    )
    temperature: Annotated[float, Field(ge=0)] | None = Field(None, description="Sent when written.")
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(None, description="The longest answer, in tokens. Sent when written.")
    extra: dict[str, Any] = Field(default_factory=dict, description="Anything else, passed through in the body.")
    weights: str | None = Field(
        None, description='With url = "local": a GGUF file, relative to the job file; without it the weights that are found.'
    )
    top_p: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="Sent when written.")
    seed: int | None = Field(None, description="Sent when written.")
    stop: str | list[str] | None = Field(None, description="Sent when written.")


class ConcurrencySpec(Section):
    start: Annotated[int, Field(ge=1)] = Field(6, description="Where the window begins.")
    min: Annotated[int, Field(ge=1)] = Field(1, description="It never goes below.")
    max: Annotated[int, Field(ge=1)] = Field(256, description="It never goes above.")


class EndpointSpec(Section):
    url: str = Field(description='"local" for the embedded model, or http(s)://host/v1.')
    api_key_env: str | None = Field(None, description="The environment variable that holds the key.")
    api_key_file: str | None = Field(None, description="The file that holds the key; read again after a 401.")
    api_key_command: str | list[str] | None = Field(
        None, repr=False, description="A command that prints the key; run again after a 401."
    )
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = Field(
        "auto", description="How max_tokens is sent."
    )
    share: Literal["full", "background"] = Field(
        "full",
        description="background: others come first. Ours take what they leave idle, and give way when theirs queue up: by what "
        "the server tells of its load, else by how long answers take against the best seen.",
    )
    identity: str | None = Field(
        None, description="Who answers, for --reuse; by default host and path, for local the weights' hash."
    )
    headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Headers sent with each request.")
    headers_env: dict[str, str] = Field(default_factory=dict, description="Headers whose values are environment variables.")
    requests_per_minute: Annotated[float, Field(gt=0)] | None = Field(
        None, description="A limit to keep, spent evenly. What the server's headers say is learnt; the lower of both counts."
    )
    tokens_per_minute: Annotated[float, Field(gt=0)] | None = Field(
        None, description="The same for tokens of prompt and answer, reserved by estimate and settled by usage."
    )
    concurrency: Literal["auto"] | Annotated[int, Field(ge=1)] | ConcurrencySpec = Field(
        "auto",
        description="Requests in flight. auto: as many as the server itself says that it takes (slots, KV cache, who waits), "
        "else found by what it delivers, and followed; a table bounds that. "
        "A number is kept, and gives way to overload.",
    )
    verify: bool | str = Field(True, description="false: accept any certificate; a path: trust this CA bundle (PEM).")
    priority: Literal["low", "high"] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = Field(
        None,
        description="For vLLM and SGLang that order by it: low goes behind the requests of others, high before them, with the "
        "sign that each wants. A number is sent as it stands.",
    )
    model: str | None = Field(None, description="The model's name at this endpoint, where it differs.")


class AnswerSpec(Section):
    schema_: dict[str, Any] | str | None = Field(None, alias="schema", description="A JSON Schema: a file or an inline table.")
    labels: list[str] | None = Field(None, description="Short for a one-of schema.", min_length=1)
    method: Literal["generate", "score"] = Field(
        "generate", description="score: ask for one token and choose the label by log-probability."
    )
    calibrate: bool = Field(False, description="With score: subtract what the prompt prefers when its fields say nothing.")
    retry_invalid: Annotated[int, Field(ge=0, le=10)] = Field(
        1, description="Re-asks with a stricter instruction before quarantine."
    )
    field: str | None = Field(None, description="The output's `answer` is this field of the parsed answer.")
    on_truncated: Literal["quarantine", "keep"] = Field(
        "quarantine", description="keep: a text cut by max_tokens counts as done."
    )
    extract: Literal["strict", "lenient"] = Field("strict", description="lenient: one JSON value inside prose is taken too.")
    strip_think: bool = Field(True, description="<think> blocks go to answer_raw.")
    from_reasoning: Literal["never", "if_valid"] = Field("never", description="if_valid: a valid answer in the reasoning counts.")


class OutputSpec(Section):
    path: str = Field(description="Where the answers go: .jsonl .csv .parquet.")
    overwrite: bool = Field(False, description="Replace a file that no run of this job wrote.")
    details: bool = Field(False, description="Add answer_model, answer_attempts, tokens, seconds, unit and raw text.")


class LimitsSpec(Section):
    class_: Literal["batch", "online"] = Field(
        "batch",
        alias="class",
        description="What timeouts, retries and pacing follow from, where they are not written: batch holds out, online gives up "
        "early. `headrace explain-class` prints both; the defaults below are those of batch.",
    )
    max_attempts: Annotated[int, Field(ge=1)] = Field(6, description="Sends of one ask; re-asks and pauses do not count.")
    attempt_timeout: AttemptTimeout = Field(
        "auto",
        description="Seconds; auto: 60 s (online 20 s) and 0.25 s (0.1 s) per max_tokens, more where replies take long. "
        "Doubled after each timeout.",
    )
    unit_deadline: Duration = Field(3600.0, description="A unit that is not settled so long after its first send fails.")
    run_deadline: Duration | None = Field(None, description="Stop so long after the command's start.")
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="USD that a run spends at most, over all its commands. Needs `[prices]`."
    )
    max_requests: Annotated[int, Field(ge=1)] | None = Field(None, description="Requests that a run sends at most.")
    max_total_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Tokens of prompts and answers that a run takes at most."
    )
    give_up_after: Duration = Field(
        1800.0, description="An endpoint that is down so long, or asks for a longer wait, stops the run."
    )
    drain: Duration = Field(30.0, description="How long Ctrl-C waits for what is in flight.")
    retry_ambiguous: Literal["always", "never"] = Field(
        "always", description="never: what may have been billed is not sent again."
    )
    order: Literal["auto", "input", "prefix", "longest"] = Field(
        "auto",
        description="Which unit goes next. prefix: prompts that begin alike follow one of them, so that the server's prefix "
        "cache serves the rest; longest: long work first, so that none ends last; auto: both; input: the input's order.",
    )


DEAREST = 100_000.0  # USD for a million tokens: what is above it is a slip of units; the dearest models cost a hundredth of it
Price = Annotated[float, Field(ge=0, le=DEAREST, allow_inf_nan=False)]


class PricesSpec(Section):
    input_per_million: Price | None = Field(None, description="USD for a million tokens of prompts; 0: free.")
    output_per_million: Price | None = Field(None, description="USD for a million tokens of answers, reasoning among them.")
    cached_input_per_million: Price | None = Field(
        None, description="For those of the prompt that came from the cache; without it they cost as the others."
    )
    reasoning_per_million: Price | None = Field(
        None, description="For those of the answer that were reasoning; without it they cost as the others."
    )
    per_request: Price | None = Field(None, description="USD for each answered request, on top of its tokens.")
    gpu_hour: Annotated[float, Field(gt=0, le=DEAREST)] | None = Field(
        None, description="One's own server instead: USD for one GPU for an hour, with tokens_per_second."
    )
    gpus: Annotated[int, Field(ge=1)] | None = Field(None, description="How many GPUs serve; by default one.")
    tokens_per_second: Annotated[float, Field(gt=0)] | None = Field(
        None, description="What the server delivers, prompts and answers together."
    )
    file: str | None = Field(
        None,
        min_length=1,
        description='A price list in the layout of LiteLLM\'s model_prices_and_context_window.json; "endpoint": the list that '
        "the endpoint itself serves at /models, in OpenRouter's layout.",
    )
    model: str | None = Field(None, description="The model's name in the list, where it is another than the endpoint's.")


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class GateSpec(Section):
    min_score: Share | None = Field(None, description="A lower score of the eval set refuses the run.")
    baseline: str | None = Field(
        None,
        min_length=1,
        description='A run whose answers to the eval set are the yardstick; "last": this job\'s newest that has any.',
    )
    margin: Share = Field(0.02, description="How much worse than the baseline still passes as equal.")
    unclear: Literal["warn", "refuse"] = Field(
        "warn", description="What an eval set that is too small to tell does: a warning, or a refusal."
    )


class JudgeSpec(Section):
    """Another model that says how good an answer is."""

    endpoint: EndpointSpec | None = Field(None, description="Who judges; by default the job's own first endpoint.")
    model: ModelSpec = Field(description="The judge's model and parameters.")
    prompt: PromptSpec = Field(
        description="What it is asked. Its template knows the record's fields, `answer` and `expected`; it answers with an "
        "object whose `score` is from 0 to 1."
    )


SCORERS = ("exact", "field", "numeric", "contains", "regex", "json_subset", "judge")


def _known_scorer(name: str) -> str:
    if name not in SCORERS and re.fullmatch(r"python:[\w.]+:\w+", name) is None:
        raise ValueError(f"{', '.join(SCORERS)}, or python:module:function")
    return name


class QualitySpec(Section):
    sample: Annotated[float, Field(gt=0, lt=1)] | Annotated[int, Field(ge=0, strict=True)] = Field(
        0.05, description="How many done items are put aside for review: a share, or a whole number."
    )
    stratify: Literal["answer", "length", "confidence", "pieces"] | None = Field(
        None, description="Draw from each kind of item by itself, rare ones more often; estimates weigh them back."
    )
    seed: Annotated[int, Field(ge=0)] = Field(0, description="The same seed draws the same sample.")
    evalset: str | None = Field(None, min_length=1, description="Records with `expected`, asked before the batch is.")
    repeat: Annotated[int, Field(ge=0)] = Field(
        0, description="So many units are asked twice: how often the same configuration flips by itself."
    )
    scorer: Annotated[str, AfterValidator(_known_scorer)] = Field(
        "exact",
        description="How an answer is held against `expected`: exact | field | numeric | contains | regex | json_subset | "
        "python:module:function | judge.",
    )
    field: str | None = Field(None, min_length=1, description="The field of a JSON answer that is scored.")
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="With scorer = numeric: how far off still counts as right."
    )
    group: str | None = Field(
        None,
        min_length=1,
        description="A field of the eval set's records: those that share it are not independent of each other.",
    )
    gate: GateSpec | None = Field(None, description="What refuses the run before anything of the batch is spent.")
    judge: JudgeSpec | None = Field(None, description="Needed by scorer = judge.")


class JobSpec(Section):
    """A whole job. `endpoint` is always a list; `base` (not in the file) is the folder that paths are relative to."""

    name: str = Field("job", min_length=1)
    input: InputSpec
    slice: SliceSpec = SliceSpec()
    prompt: PromptSpec
    model: ModelSpec
    endpoint: list[EndpointSpec] = Field(min_length=1)
    answer: AnswerSpec = AnswerSpec()
    output: OutputSpec
    limits: LimitsSpec = LimitsSpec()
    prices: PricesSpec | None = None
    quality: QualitySpec = QualitySpec()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("endpoint"), dict):
            value = {**value, "endpoint": [value["endpoint"]]}
        if isinstance(value, dict) and value.get("prices") == ENDPOINT_LIST:
            value = {**value, "prices": {"file": ENDPOINT_LIST}}
        return value

    def content(self) -> dict[str, Any]:
        """The keys that decide answers, as plain JSON."""
        return {
            "input": self.input.model_dump(mode="json"),
            "slice": self.slice.model_dump(mode="json"),
            "prompt": self.prompt.model_dump(mode="json"),
            "model": self.model.model_dump(mode="json"),
            "answer": self.answer.model_dump(mode="json", by_alias=True, exclude={"retry_invalid"}),
        }

    def operating(self) -> dict[str, Any]:
        """The keys that may change between commands. They name where secrets stand and hold none."""
        return {
            "name": self.name,
            "endpoint": [endpoint.model_dump(mode="json") for endpoint in self.endpoint],
            "output": self.output.model_dump(mode="json"),
            "limits": self.limits.model_dump(mode="json", by_alias=True),
            "prices": self.prices.model_dump(mode="json", exclude_none=True) if self.prices is not None else None,
            "quality": self.quality.model_dump(mode="json"),
            "retry_invalid": self.answer.retry_invalid,
        }

    def content_hash(self) -> str:
        return canon.digest(self.content())


# Keys of the contract that this release refuses unless they stand at their default.
NOT_YET: tuple[str, ...] = ("prompt.input",)
