"""What the simulated endpoint can be told: the laws, and what only a real server has."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import SpecError
from headrace.policy.price import Prices, amount, per_million
from headrace.testing.laws import Laws, setting
from headrace.testing.sim.script import Rule

PRIORITIES = ("ignored", "unknown", "disabled")


@dataclass(frozen=True, kw_only=True)
class SimOptions(Laws):
    """The simulated endpoint's options. Raises SpecError for impossible values. The key is in no repr."""

    host: str = setting("127.0.0.1", "The address to listen on.")
    port: int = setting(0, "The port to listen on; 0: a free one.")
    model: str | None = setting(None, "The only model there is; another name gets 404 model_not_found. Default: any name.")
    api_key: str | None = setting(None, "The key that requests must carry; without it 401.", secret=True)
    context: int = setting(0, "Longest prompt in tokens; above it 400 context_length_exceeded. 0: no bound.")
    schema: bool = setting(True, "Whether response_format is understood; if not, it is a 400.")
    strict_schema: bool = setting(False, "400 for schemas that are not in strict form (all required, none additional).")
    max_tokens_field: str | None = setting(None, "The only field that is taken: max_tokens or max_completion_tokens.")
    logprobs: int = setting(20, "Most likeliest tokens with log-probabilities that may be asked for; 0: a 400.")
    priority: str = setting(
        "ignored", "How the field priority is met: ignored, unknown (400) or disabled (503, as SGLang says it)."
    )
    max_sockets: int = setting(0, "A connection above this number is reset. 0: no bound.")
    models_latency_ms: float = setting(0.0, "Time that GET /v1/models takes.")
    prices: str | None = setting(
        None,
        "What tokens cost, told at /v1/models and billed in /stats: INPUT,OUTPUT[,CACHED] in USD for a million, as 0.15,0.6.",
    )
    script: tuple[Rule, ...] = setting((), "A JSONL file of scripted replies.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port <= 65_535:
            raise SpecError(f"--port is {self.port}; allowed: 0 to 65535", key="port")
        if self.max_tokens_field not in (None, "max_tokens", "max_completion_tokens"):
            raise SpecError("--max-tokens-field must be max_tokens or max_completion_tokens", key="max_tokens_field")
        if self.priority not in PRIORITIES:
            raise SpecError(f"--priority must be {', '.join(PRIORITIES)}", key="priority")
        self.tariff()
        for name in ("context", "logprobs", "max_sockets", "models_latency_ms"):
            if not getattr(self, name) >= 0:
                raise SpecError(f"--{name.replace('_', '-')} must be 0 or more", key=name)

    def tariff(self) -> Prices | None:
        """What tokens cost. Raises SpecError."""
        if self.prices is None:
            return None
        told = [amount(part.strip()) for part in self.prices.split(",")]
        if not 2 <= len(told) <= 3 or None in told:
            raise SpecError(
                f"--prices is {self.prices[:40]!a}; allowed: INPUT,OUTPUT[,CACHED] such as 0.15,0.6", key="prices",
                allowed="INPUT,OUTPUT[,CACHED]",
            )  # fmt: skip
        each, answer, cached = [*map(per_million, told), None][:3]
        return Prices(each, answer, cached)
