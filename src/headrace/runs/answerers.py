"""Who is asked: the endpoints of a job, opened one after the other, and what is to be known of them before the first send."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from headrace.answers.judge import AnswerJudge
from headrace.answers.score import ScoreJudge
from headrace.answers.strictness import described
from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.engine.knobs import Asked
from headrace.errors import SpecError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.policy.price import Prices
from headrace.runs.embedded import EmbeddedEndpoint, SchemaForms, open_embedded
from headrace.runs.job import Job
from headrace.runs.pacing import pace_of
from headrace.runs.prices import Found, in_own_list
from headrace.runs.registry import RunFolder

AnyEndpoint = HttpEndpoint | EmbeddedEndpoint
_SHOWN_IDENTITY = 25  # local:sha256: and the first 12 digits


class Answerers:
    """The endpoints of a job, in its order. To be closed."""

    def __init__(self) -> None:
        self.endpoints: list[AnyEndpoint] = []
        self.numbers: list[int] = []  # the ledger's, once it knows of them

    async def open(self, job: Job, judge: AnswerJudge | ScoreJudge) -> None:
        """Open each of them; for `local` its server runs and answers by then. Raises SpecError."""
        schema, forms = judge.schema, SchemaForms()
        if schema is not None:
            forms = SchemaForms(schema.wire(), schema.strict(), described(schema.objections))
        for index, chosen in enumerate(job.spec.endpoint):
            if chosen.url == "local":
                self.endpoints.append(await open_embedded(job, index, forms, os.environ))
                continue
            opened = open_endpoint(
                job.spec, index, base=job.base, environ=os.environ, response_format=forms.wire,
                strict_response_format=forms.strict, objections=forms.objections,
            )  # fmt: skip
            self.endpoints.append(opened)

    async def settle_priorities(self, job: Job) -> list[str]:
        """Have `endpoint.priority` sent as each server wants it; lines for people where it cannot be."""
        told = []
        for endpoint, chosen in zip(self.endpoints, job.spec.endpoint, strict=True):
            if isinstance(endpoint, HttpEndpoint):
                told.append(await endpoint.settle_priority(chosen.priority))
        return [line for line in told if line is not None]

    async def own_prices(self, job: Job, before: Mapping[str, Prices]) -> list[Found]:
        """What each says of its prices itself, in its list of models; it is asked for once. `before`: what was found when the run
        was last taken up, by who answers.
        """
        lists = await asyncio.gather(*(endpoint.models() for endpoint in self.endpoints))
        return [
            in_own_list(job.spec, chosen, models, before.get(endpoint.identity))
            for endpoint, chosen, models in zip(self.endpoints, job.spec.endpoint, lists, strict=True)
        ]

    def enter(self, ledger: SqliteLedger) -> None:
        """Tell the ledger who they are."""
        self.numbers = [ledger.add_endpoint(endpoint.identity, endpoint.name) for endpoint in self.endpoints]

    def asked(self, job: Job, found: Sequence[Found]) -> list[Asked]:
        """Each with how fast it is asked, what it costs, and for which model."""
        count = len(self.endpoints)
        return [
            Asked(
                endpoint, pace_of(chosen, slots_of(endpoint), count), number, one.prices if one.prices.known else None,
                model=None if chosen.url == "local" else chosen.model or job.spec.model.name,
            )
            for endpoint, chosen, number, one in zip(self.endpoints, job.spec.endpoint, self.numbers, found, strict=True)
        ]  # fmt: skip

    @property
    def by_identity(self) -> Mapping[str, int]:
        """The ledger's number of each."""
        return dict(zip([endpoint.identity for endpoint in self.endpoints], self.numbers, strict=True))

    async def ask_beginnings(self, labels: Sequence[str]) -> dict[str, list[str]] | None:
        """The tokens that can begin each label, by the endpoints' own tokenizers; None where none serves one.

        Raises SpecError where they differ: what is counted for one model's tokens says nothing about another's.
        """
        found: dict[str, list[str]] | None = None
        said_by = ""
        for endpoint in self.endpoints:
            beginnings = await endpoint.ask_beginnings(labels)
            if beginnings is None:
                continue
            if found is not None and beginnings != found:
                raise SpecError(
                    f'answer.method = "score": {said_by} and {endpoint.name} split the labels into other tokens; they serve '
                    "different models",
                    key="endpoint",
                    allowed="endpoints that serve one model",
                )
            found, said_by = beginnings, endpoint.name
        return found

    def other_weights(self, folder: RunFolder) -> str | None:
        """A warning where the embedded model is another than the one that gave answers of this run."""
        embedded = [endpoint for endpoint in self.endpoints if isinstance(endpoint, EmbeddedEndpoint)]
        if not embedded:
            return None
        reader = LedgerReader(folder.ledger)
        try:
            known = [as_text(identity) or "" for (identity,) in reader.all("answerers")]
        finally:
            reader.close()
        others = [identity for identity in known if identity not in self.by_identity]
        if not others:
            return None
        named = [identity[:_SHOWN_IDENTITY] for identity in (*others, embedded[0].identity)]
        return f"answers so far came from {', '.join(named[:-1])}, the rest comes from {named[-1]}; --new asks all of one."

    async def close(self) -> None:
        for endpoint in self.endpoints:
            await endpoint.close()


def slots_of(endpoint: AnyEndpoint) -> int | None:
    """How many requests the endpoint is known to work on at once; None where it has not said."""
    return endpoint.slots if isinstance(endpoint, EmbeddedEndpoint) else None
