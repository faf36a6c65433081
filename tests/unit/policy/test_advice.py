"""What a run's figures call for, and that healthy ones call for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.policy.advice import LEAST, Symptoms, advise

HEALTHY: dict[str, Any] = {
    "settled": 1000, "sent": 1010, "overloaded": 8, "seconds": 300, "tail_share": 0.03, "paused_share": 0.01, "per_minute": 200.0,
    "context": 400.0, "context_before": 390.0, "max_tokens": 64, "temperature": 0.0, "invalid": 3,
}  # fmt: skip

ILL: dict[str, tuple[dict[str, Any], str | None]] = {
    "max_tokens": ({"truncated": 40}, "model.max_tokens = 128"),
    "concurrency": ({"overloaded": 300, "fixed": 256}, 'endpoint.concurrency = "auto"'),
    "paused": ({"overloaded": 60, "paused_share": 0.3}, "endpoint.requests_per_minute = 200"),
    "tail": ({"tail_share": 0.4, "order": "input"}, 'limits.order = "auto"'),
    "slicing": ({"context": 900.0, "is_sliced": True, "slice_changed": True}, None),
    "schema_refused": ({"is_schema_refused": True}, None),
    "wasted": ({"invalid": 200, "temperature": None}, "model.temperature = 0"),
    "context": ({"read_in_part": 7}, None),
    "server_limit": ({"queued_share": 0.8}, None),
    "prefix_order": ({"groupable": 0.5, "common": 0.1, "cached_share": 0.15, "order": "input"}, 'limits.order = "auto"'),
}


def seen(**changed: Any) -> Symptoms:
    return Symptoms(**{**HEALTHY, **changed})


def test_a_healthy_run_needs_nothing() -> None:
    assert advise(seen()) == []


@pytest.mark.parametrize("name", ILL)
def test_each_illness_is_named_and_no_other(name: str) -> None:
    symptoms, line = ILL[name]
    (found,) = advise(seen(**symptoms))
    assert (found.name, found.line) == (name, line)
    assert str(found).endswith(line or found.reason)


def test_the_reason_has_the_figures() -> None:
    (found,) = advise(seen(truncated=40))
    assert found.reason == "40 answers were cut at 64 tokens (4.0% of those settled); raise it, or ask for less"
    (found,) = advise(seen(overloaded=303, fixed=256))
    assert found.reason.startswith("30.0% of the sends were refused")


def test_what_no_key_mends_has_no_line() -> None:
    for changed in (
        {"truncated": 1, "max_tokens": None},
        {"invalid": 300, "temperature": 0.0},
        {"tail_share": 0.5, "order": "auto"},
    ):
        (found,) = advise(seen(**changed))
        assert found.line is None
        assert str(found) == found.reason


def test_a_server_that_does_not_tell_of_its_cache_may_have_one() -> None:
    (found,) = advise(seen(groupable=0.5, order="longest"))
    assert found.name == "prefix_order"
    assert found.reason.startswith("50% of the prompts' text")


def test_of_few_sends_only_cut_answers_are_said() -> None:
    few = {"settled": 10, "sent": LEAST - 1, "overloaded": 40, "fixed": 64, "invalid": 30, "tail_share": 0.9, "order": "input"}
    assert advise(seen(**few)) == []
    (cut,) = advise(seen(**few, truncated=2))
    assert "(" not in cut.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"tail_share": 0.4, "order": "input", "is_finished": False},  # what is still running has no end
        {"tail_share": 0.4, "order": "input", "seconds": 9},
        {"tail_share": 0.4, "is_sliced": True},  # all has been done
        {"paused_share": 0.5, "overloaded": 0},  # down, and not asked too much
        {"paused_share": 0.5, "requests_per_minute": 60.0},
        {"context": 900.0, "context_before": None, "is_sliced": True},
        {"context": 900.0, "is_sliced": True},  # the prompt or the input has grown
        {"queued_share": 0.1},
        {"groupable": 0.5, "common": 0.1, "cached_share": 0.15},  # brought together already
        {"groupable": 0.5, "common": 0.1, "cached_share": 0.55, "order": "input"},  # served from the cache all the same
        {"groupable": 0.5, "common": 0.2, "cached_share": 0.0, "order": "input"},  # there is no cache
        {"groupable": 0.1, "common": 0.8, "cached_share": None, "order": "input"},
        {"context": 900.0},  # longer, and nothing of it is cut by the job
    ],
)
def test_what_is_no_illness_is_not_said(changed: dict[str, Any]) -> None:
    assert advise(seen(**changed)) == []


def test_of_several_endpoints_no_line_is_written_that_would_fit_one_alone() -> None:
    (told,) = advise(Symptoms(**{**HEALTHY, "overloaded": 60, "paused_share": 0.3, "endpoints": 2}))
    assert (told.name, told.key) == ("paused", None)
    assert "at the one that refuses" in told.reason
