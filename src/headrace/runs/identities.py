"""Who would answer a job, known without asking anybody."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.endpoints.address import read_address
from headrace.errors import SpecError
from headrace.local.identity import sha256_of
from headrace.local.weights import find_weights
from headrace.runs.embedded import chosen_weights
from headrace.runs.job import Job
from headrace.runs.registry import state_folder


def identities_of(job: Job, environ: Mapping[str, str]) -> list[str | None]:
    """The identity of each endpoint, in the job's order; None for embedded weights that are not there.

    Nothing is sent or written.
    """
    return [chosen.identity or _identity(job, chosen.url, environ) for chosen in job.spec.endpoint]


def _identity(job: Job, url: str, environ: Mapping[str, str]) -> str | None:
    if url != "local":
        return read_address(url, job.spec.model.route).place
    try:
        weights = find_weights(environ, chosen=chosen_weights(job), name=job.spec.model.name)
        return f"local:sha256:{sha256_of(weights.path, state_folder(environ), remember=False)}"
    except SpecError:
        return None
