"""A key in any part of an address is refused, and is not repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.runs.jobfile import job_from_dict

KEY = "sk-SECRETKEYVALUE1234567890"


def job(url: str) -> dict[str, object]:
    return {
        "input": {"path": "in.jsonl"},
        "prompt": {"user": "{{ text }}"},
        "model": {"name": "m"},
        "endpoint": {"url": url},
        "output": {"path": "out.jsonl"},
    }


@pytest.mark.parametrize("place", ["{}@host/v1", "host/{}/v1", "host/v1#{}", "host/v1?key={}", "host/v1/{}"])
def test_a_key_in_an_address_is_refused_and_not_repeated(place: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        job_from_dict(job("http://" + place.format(KEY)), tmp_path)
    assert KEY not in str(refused.value) + str(refused.value.found)
    assert refused.value.key == "endpoint.url"


@pytest.mark.parametrize(
    "url", ["http://host/v1", "https://host/openai/deployments/gpt-4o-mini-2024-07-18/v1", "http://host/key/v1"]
)
def test_an_ordinary_address_is_taken(url: str, tmp_path: Path) -> None:
    assert job_from_dict(job(url), tmp_path).spec.endpoint[0].url == url
