"""What has happened in this process, as plain numbers that a scrape reads: no lock, and no more of them as a run gets long."""

from __future__ import annotations

from bisect import bisect_left

from headrace.events import EndpointBack, EndpointDown, EndpointGone, EndpointPaused, Event, Progress, Tried

OK = "ok"
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the duration histogram's buckets, in seconds; what takes longer falls into one more."""


class Requests:
    """One endpoint's requests that came back: by kind, by duration (`buckets` are not cumulative), and their tokens."""

    __slots__ = ("buckets", "cached", "completion", "kinds", "prompt", "retries", "seconds")

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0
        self.prompt = self.completion = self.cached = self.retries = 0


class Counts:
    """An Observer that counts. One thread writes, others may read: a number may then be one event older than its neighbour."""

    def __init__(self) -> None:
        self.requests: dict[str, Requests] = {}
        self.progress: Progress | None = None
        self.pauses: dict[str, int] = {}
        self.is_up: dict[str, bool] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Tried):
            self._count(event)
            return
        match event:
            case Progress():
                self.progress = event
            case EndpointPaused(endpoint):
                self.pauses[endpoint] = self.pauses.get(endpoint, 0) + 1
            case EndpointDown(endpoint) | EndpointGone(endpoint):
                self.is_up[endpoint] = False
            case EndpointBack(endpoint):
                self.is_up[endpoint] = True
            case _:
                pass

    def _count(self, tried: Tried) -> None:
        endpoint = tried.endpoint
        requests = self.requests.get(endpoint)
        if requests is None:
            requests = self.requests[endpoint] = Requests()
            self.is_up.setdefault(endpoint, True)
        kind = OK if tried.kind is None else tried.kind
        requests.kinds[kind] = requests.kinds.get(kind, 0) + 1
        requests.buckets[bisect_left(SECONDS, tried.seconds)] += 1
        requests.seconds += tried.seconds
        requests.prompt += tried.prompt
        requests.completion += tried.completion
        requests.cached += tried.cached
        requests.retries += tried.goes_on
