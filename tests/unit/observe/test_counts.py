"""What a scrape reads: counts of what came back, however many requests there are."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headrace.errors import SpecError
from headrace.events import EndpointBack, EndpointDown, EndpointGone, EndpointPaused, Event, Progress, Tried, Warned
from headrace.observe.counts import SECONDS, Counts
from headrace.observe.prometheus import Figures, address

PROGRESS = Progress(
    total=10, done=4, failed=1, quarantined=1, rejected=1, reading=True, in_flight=2, window=8, retries=0, prompt_tokens=0,
    completion_tokens=0, units_per_second=0.0, oldest_in_flight_s=1.5, waiting=3, bound_by=None, paused_for_s=None,
    paused_why=None,
)  # fmt: skip


def tried(kind: str | None = None, seconds: float = 0.2, goes_on: bool = False, endpoint: str = "a") -> Tried:
    return Tried(endpoint, kind, seconds, 10, 4, 6, goes_on)


def scraped(*events: Event) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and label values, as a scraper reads them."""
    counts = Counts()
    for event in events:
        counts(event)
    registry = CollectorRegistry()
    registry.register(Figures(counts, "1.2"))
    page = generate_latest(registry).decode()
    families = text_string_to_metric_families(page)
    return {(sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples}


def test_requests_are_counted_by_endpoint_and_kind_with_tokens_and_retries() -> None:
    page = scraped(tried(), tried(), tried("overloaded", goes_on=True), tried(endpoint="b"))
    assert page["headrace_requests_total", ("a", "ok")] == 2
    assert page["headrace_requests_total", ("a", "overloaded")] == 1
    assert page["headrace_requests_total", ("b", "ok")] == 1
    assert page["headrace_retries_total", ("a",)] == 1
    assert page["headrace_tokens_total", ("input", "a")] == 30
    assert page["headrace_tokens_total", ("output", "a")] == 12
    assert page["headrace_cached_tokens_total", ("a",)] == 18
    assert page["headrace_info", ("1.2",)] == 1


def test_the_histograms_buckets_hold_all_that_took_no_longer() -> None:
    page = scraped(tried(seconds=0.05), tried(seconds=0.06), tried(seconds=1e9))
    name = "headrace_request_duration_seconds"
    assert [page[f"{name}_bucket", ("a", bound)] for bound in ("0.05", "0.1", "600.0", "+Inf")] == [1, 2, 2, 3]
    assert page[f"{name}_count", ("a",)] == 3
    assert page[f"{name}_sum", ("a",)] == pytest.approx(1e9 + 0.11)


def test_the_newest_snapshot_becomes_gauges() -> None:
    page = scraped(Progress(**{name: getattr(PROGRESS, name) for name in PROGRESS.__struct_fields__} | {"done": 0}), PROGRESS)
    assert [page["headrace_units", (status,)] for status in ("done", "failed", "quarantined", "rejected", "open")] == [
        4,
        1,
        1,
        1,
        3,
    ]
    assert (page["headrace_in_flight", ()], page["headrace_window", ()], page["headrace_waiting", ()]) == (2, 8, 3)
    assert (page["headrace_reading", ()], page["headrace_paused", ()]) == (1, 0)
    assert ("headrace_cost_usd", ()) not in page, "unknown prices are no zero"


def test_an_endpoint_is_up_until_it_is_down_or_gone() -> None:
    assert scraped(tried())["headrace_endpoint_up", ("a",)] == 1
    down = EndpointDown("a", 5.0, "refused")
    assert scraped(tried(), down, tried("connection"))["headrace_endpoint_up", ("a",)] == 0
    assert scraped(down, EndpointBack("a", 5.0))["headrace_endpoint_up", ("a",)] == 1
    assert scraped(EndpointGone("a", "auth", 1))["headrace_endpoint_up", ("a",)] == 0
    page = scraped(EndpointPaused("a", 1.0, "x"), EndpointPaused("a", 1.0, "x"), Warned("careful"))
    assert page["headrace_endpoint_pauses_total", ("a",)] == 2


def test_a_hostile_name_stays_a_label() -> None:
    name = 'x"} 1\nheadrace_forged 1'
    page = scraped(tried(endpoint=name))
    assert page["headrace_requests_total", (name, "ok")] == 1
    assert ("headrace_forged", ()) not in page


def test_counts_do_not_grow_with_the_number_of_requests() -> None:
    counts = Counts()
    for number in range(2000):
        counts(tried("timeout" if number % 2 else None, seconds=number))
    assert len(counts.requests) == 1
    assert (len(counts.requests["a"].kinds), len(counts.requests["a"].buckets)) == (2, len(SECONDS) + 1)


def test_an_address_is_on_loopback_unless_it_says_otherwise() -> None:
    assert address("9109") == ("127.0.0.1", 9109)
    assert address("0.0.0.0:0") == ("0.0.0.0", 0)
    assert address("[::1]:80") == ("::1", 80)


@pytest.mark.parametrize("text", ["", "x", "-1", "65536", ":80", "host:", "１"])
def test_what_is_no_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"--metrics-port: found .*; allowed: a port") as refused:
        address(text)
    assert "\n" not in str(refused.value)
