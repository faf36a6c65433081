"""One endpoint as the engine sees it: what is in flight there, and the rules that say whether more may go."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from headrace.engine.knobs import Asked, Knobs
from headrace.engine.work import Work
from headrace.policy.breaker import Breaker
from headrace.policy.budget import Bound, Purse
from headrace.policy.canary import Canary
from headrace.policy.ceiling import Ceiling, View
from headrace.policy.pause import Pause
from headrace.policy.room import Room
from headrace.policy.truncation import TruncationWatch
from headrace.policy.tuning import TuningWindow
from headrace.policy.verdict import OVERLOAD, is_server_failure
from headrace.policy.window import Window
from headrace.policy.wrong import WrongConfiguration
from headrace.values import PERMANENT, Capacity, Failure, Gauges, Kind, Reply, Sent, Usage

REFUSED_FOR_S = 60.0
PROMPT_SHARE = 0.125
WORK_MEMORY = 50
TIME_MEMORY = 50
FEW_ANSWERS = 8
LOOSE = 1.25  # the window leaves it to the tokens in flight to say how many fit: some units are smaller than the mean
LONG_AWAY_S = 5.0  # a server that was away so long has been started anew, or has other work now


class Lane:
    """State of one endpoint. All times are loop time; nothing here awaits."""

    def __init__(self, asked: Asked, knobs: Knobs, rng: random.Random, count_stopped: Callable[[float], object]) -> None:
        """`count_stopped` is told the time before the lane becomes paused or down, or ceases to be."""
        self.endpoint, pace, self.number, _, self.model, is_proven, learnt = asked
        self.window = window = pace.window()
        self.rates = pace.rates(knobs.max_tokens)
        self.limits = knobs.attempt_limits()
        self._tuning = window if isinstance(window, TuningWindow) else None
        self.share = pace.share()
        self.room = Room()
        self.prompts = TruncationWatch(knobs.shared_bytes)
        self.ceiling: Ceiling | None = None  # what follows of what the server says of itself
        self.gauges = Gauges()  # what it said last of its load
        self.told: Capacity | None = None  # what the server has said that it is
        self._capacity = Capacity()
        self._counts_room = self._tuning is not None  # until it is known that the server does not say what it holds
        self.canary = None if is_proven else Canary()
        self._mean_work = 1.0  # of replies that said their usage, for those that do not
        self.bound = Bound(learnt or knobs.most)
        self.purse: Purse | None = None  # set where anything is counted
        self.breaker = Breaker()
        self.pause = Pause()
        self.wrong = WrongConfiguration()
        self.in_flight: dict[int, float] = {}  # unit → start, oldest first
        self.suspects: dict[int, Work] = {}  # units that failed before the first success, where another endpoint may answer them
        self.gone: str | None = None  # why it is not asked any more
        self.pause_told = 0.0  # the end of the pause that people know of
        self.limit_told = 0  # the window that the feed knows of
        self.sends = 0
        self.settled = self.retries = 0  # since the last sample
        self.succeeded = False
        self.overloaded_since: float | None = None
        self.refused_since: float | None = None
        self.overload_why = ""
        self.mean_s = 0.0  # of the latest replies
        self._count_stopped = count_stopped
        self._judged_from = 0  # overload of an earlier send has been judged already
        self._rng = rng

    def may_send(self, now: float) -> bool:
        if self.is_full or now < self.pause.until or now < self.rates.ready_at:
            return False
        if self.gone is not None:
            return False
        if self.canary is not None and not self.canary.may_send(now, len(self.in_flight)):
            return False
        return self.breaker.is_quiet or self.breaker.may_send(now)

    @property
    def is_full(self) -> bool:
        """Whether as much is in flight as may be: something has to come back first, or the server to say that it takes more."""
        in_flight = len(self.in_flight)
        if in_flight >= self.window.limit or not self.room.is_open:
            return True
        if self.is_short:
            return True
        return self.share is not None and in_flight >= self.share.limit

    @property
    def is_short(self) -> bool:
        """Whether the budget has no room for the next unit at this endpoint's prices, until something comes back."""
        return self.purse is not None and self.purse.is_closed

    def is_working(self, now: float) -> bool:
        """Whether it answers at the moment, as far as is known."""
        return self.gone is None and not self.breaker.is_down and now >= self.pause.until

    @property
    def asks_for_gauges(self) -> bool:
        """Whether what the server says of itself would change anything: not where a number is to be kept."""
        return self._tuning is not None or self.share is not None

    def has_room(self, work: Work) -> bool:
        """Whether the server's cache and the budget have room for this unit. If not, nothing may be sent until they have."""
        if self.room.budget != math.inf and not self.room.takes(self._held_by(work)):
            return False
        return self.purse is None or self.purse.takes(len(work.payload))

    def on_sent(self, work: Work, now: float) -> int:
        """Returns the number of this send, which tells what it can say about the window."""
        if not self.breaker.is_quiet:
            self.breaker.on_sent(work.seq)
        self.in_flight[work.seq] = now
        if self.canary is not None:
            self.canary.on_sent(now)
        if self._counts_room or self.rates.is_on:
            work.reserved = self.rates.reserve(now, len(work.payload))
        if self._counts_room:
            work.held = self._held_by(work)
            self.room.take(work.held)
        if self.purse is not None:
            work.budgeted = self.purse.reserve(len(work.payload))
        self.sends += 1
        return self.sends

    def on_back(self, work: Work, result: Reply | Failure | None) -> None:
        """A unit is back with this result. None: it was never sent."""
        self.in_flight.pop(work.seq, None)
        if work.held:
            self.room.give_back(work.held)
            work.held = 0.0
        if self.purse is not None and work.budgeted is not None:
            self._book(self.purse, work, result)

    def _book(self, purse: Purse, work: Work, result: Reply | Failure | None) -> None:
        amounts, work.budgeted = work.budgeted, None
        assert amounts is not None
        if result is None:
            purse.give_back(amounts)
        elif isinstance(result, Reply):
            purse.settle(amounts, len(work.payload), result.usage, kind=None, sent=Sent.YES)
        else:
            purse.settle(amounts, len(work.payload), result.usage, kind=result.kind, sent=result.sent)

    def on_result(self, work: Work, result: Reply | Failure, now: float) -> None:
        """What a result says about the limits per minute. Called for each that came while there are any."""
        rates = self.rates
        if result.limits is not None:
            rates.on_limits(result.limits, now)
        if work.reserved is not None:
            is_charged = not (isinstance(result, Failure) and (result.kind in OVERLOAD or result.sent is Sent.NO))
            rates.settle(now, work.reserved, len(work.payload), result.usage, is_charged=is_charged)
            work.reserved = None

    def on_reply(self, send: int, seconds: float, now: float, usage: Usage | None = None) -> None:
        """A well-formed reply."""
        self.mean_s += (seconds - self.mean_s) / TIME_MEMORY if self.succeeded else seconds
        if not self.succeeded:
            self.succeeded = True
            self.canary = None
            self.refused_since = None
            self.wrong.on_success()
            self.suspects.clear()
        self.overloaded_since = None
        self._clean(send)
        if self._tuning is not None or self.share is not None:
            work, in_flight = self._work_of(usage), len(self.in_flight) + 1
            if self._tuning is not None:
                self._tuning.on_delivered(send, seconds, work, in_flight, now, self.sends + 1)
            if self.share is not None:
                self.share.on_delivered(send, seconds, work, in_flight, self.sends + 1)
        if not self.breaker.is_quiet:
            self._alive(now)

    def on_failure(self, work: Work, send: int, failure: Failure, now: float, *, allow_open: bool) -> None:
        """What a failed send says about the endpoint."""
        self._count_stopped(now)
        breaker = self.breaker
        if failure.mended:
            breaker.on_no_verdict(now, work.seq)
        elif failure.refused and not self.succeeded:
            if self.refused_since is None:
                self.refused_since = now
            breaker.force_open(now, failure.message, work.seq)
        elif failure.kind in OVERLOAD:
            self._overloaded(send, failure, now)
            breaker.on_no_verdict(now, work.seq)
        elif is_server_failure(failure.kind):
            if failure.kind is Kind.TIMEOUT:
                self._timed_out(send)
            breaker.on_failure(work.seq, now, failure.message, allow_open=allow_open, is_proven=self.canary is None)
        elif failure.kind in PERMANENT and failure.status is not None:
            self._clean(send)
            self._alive(now)
        else:
            breaker.on_no_verdict(now, work.seq)

    def on_capacity(self, capacity: Capacity) -> None:
        """The server has said what it is and holds."""
        holds = capacity.tokens is not None or "kv_used" in capacity.gauges
        self._counts_room = self._tuning is not None and holds
        self._capacity = capacity
        self.bound.allow(capacity.context)
        if capacity.tokens is not None or capacity.requests is not None or capacity.gauges:
            self.ceiling = Ceiling(capacity, self.window.limit)
            self._follow(self.ceiling)

    def on_gauges(self, gauges: Gauges, now: float) -> None:
        """The server has said how it is loaded."""
        self.gauges = gauges
        ceiling = self.ceiling
        if ceiling is None:
            ceiling = self.ceiling = Ceiling(self._capacity, self.window.limit)
        room = self.room
        view = View(
            now, len(self.in_flight), room.held, self.mean_s, room.held / max(room.units, 1), self.rates.estimate.answer
        )  # fmt: skip
        ceiling.on_gauges(gauges, view)
        if self.share is not None:
            self.share.on_gauges(gauges, self._capacity, view)
        self._follow(ceiling)

    def on_no_gauges(self) -> None:
        """The server does not say how it is loaded any more: the window is found by what comes back."""
        self.ceiling = None
        self.gauges = Gauges()
        self.room.allow(math.inf)
        if self._tuning is not None:
            self._tuning.on_told(None, self.sends + 1)
        if self.share is not None:
            self.share.on_no_gauges()

    def _follow(self, ceiling: Ceiling) -> None:
        """Let what the server says bound what is in flight, by half before tokens are known well. A number stays as it is."""
        tuning = self._tuning
        if tuning is None:
            return
        tokens = ceiling.tokens if self.rates.estimate.seen >= FEW_ANSWERS else ceiling.tokens / 2
        self.room.allow(tokens)
        limit = ceiling.requests
        if tokens < math.inf:
            mean = self.room.held / self.room.units if self.room.units else 0.0
            fitting = math.ceil(LOOSE * tokens / mean) if mean else tuning.ceiling
            limit = fitting if limit is None else min(limit, fitting)
        tuning.bound(ceiling.most)
        tuning.on_told(limit, self.sends + 1)
        if limit is None and ceiling.is_queueing:
            tuning.on_queue(self.sends + 1)

    def _held_by(self, work: Work) -> float:
        """Tokens that the server's cache is expected to hold for a unit; what others have put there already is theirs."""
        estimate = self.rates.estimate
        return max(1.0, len(work.payload) * estimate.tokens_a_byte * estimate.computed + estimate.answer)

    def stopped_within(self, since: float, now: float) -> float:
        """Seconds of this span in which it was paused or held to be down, in the state that it has had all the time."""
        if self.breaker.is_down:
            return now - since
        return max(0.0, min(now, self.pause.until) - since)

    def on_timeout(self, seconds: float, now: float) -> None:
        """An attempt had so long and got no reply: it would have taken longer."""
        self.limits.on_timeout(seconds, now)
        self.mean_s += (seconds - self.mean_s) / TIME_MEMORY if self.mean_s else seconds

    def on_stall(self, now: float, seconds: float) -> None:
        """The process did not run for so long, up to now: that is not the endpoint's time."""
        breaker = self.breaker
        breaker.down_since, self.overloaded_since, self.refused_since = (
            None if since is None else min(since + seconds, now)
            for since in (breaker.down_since, self.overloaded_since, self.refused_since)
        )

    def next_chance(self, now: float, due: float | None, *, has_supply: bool) -> float | None:
        """When something can be sent here by the passing of time alone; None: not by that. `due`: when the next retry is."""
        if self.may_send(now):
            return due if due is not None and due > now else None
        if self.is_full:
            return None  # whatever else is due, a slot has to come back first
        change = self._next_change(now)
        if change is None or has_supply:
            return change
        return max(change, due) if due is not None else None

    def _next_change(self, now: float) -> float | None:
        """When sending may become possible by the passing of time alone; None: not by that."""
        times = []
        if now < self.pause.until:
            times.append(self.pause.until)
        if now < self.rates.ready_at:
            times.append(self.rates.ready_at)
        if self.breaker.circuit == "open" and now < self.breaker.probe_at:
            times.append(self.breaker.probe_at)  # one that is due already waits for something else
        if self.canary is not None and not self.canary.may_send(now, len(self.in_flight)):
            times.append(self.canary.next_chance(len(self.in_flight)))
        return max(times) if times else None

    def down_for_s(self, now: float) -> float:
        """Seconds since when nothing but failures of the server came, or nothing but overload."""
        since = [t for t in (self.breaker.down_since, self.overloaded_since) if t is not None]
        return now - min(since) if since else 0.0

    def refused_for_s(self, now: float) -> float:
        return now - self.refused_since if self.refused_since is not None else 0.0

    def _clean(self, send: int) -> None:
        window = self.window
        limit = window.limit
        self.pause.on_completion(overload=False, window=limit)
        if limit < window.ceiling and isinstance(window, Window):
            window.on_clean(send)

    def _work_of(self, usage: Usage | None) -> float:
        """What a reply took of the server, in tokens: those of the answer, and an eighth of those of the prompt that were
        computed for it. What says no usage counts as the mean of those that did.
        """
        if usage is None or usage.completion is None:
            return self._mean_work
        computed = (usage.prompt or 0) - (usage.cached or 0)
        work = usage.completion + PROMPT_SHARE * max(0, computed)
        self._mean_work += (work - self._mean_work) / WORK_MEMORY
        return work

    def _alive(self, now: float) -> None:
        if self.breaker.is_down:
            self._count_stopped(now)
            away_s = now - (self.breaker.down_since or now)
            if away_s >= LONG_AWAY_S and self._tuning is not None:
                self._tuning.on_return(now, self.sends + 1)
        self.breaker.on_alive()

    def _timed_out(self, send: int) -> None:
        window = self.window
        if isinstance(window, Window):
            window.on_timeout(send, self.sends + 1)
        else:
            window.on_refused(send, self.sends + 1)

    def _overloaded(self, send: int, failure: Failure, now: float) -> None:
        if self.overloaded_since is None:
            self.overloaded_since = now
        self.overload_why = failure.message
        if failure.wait_s is not None:
            self.pause.on_named_wait(failure.wait_s, now, failure.message, self._rng)
        if send < self._judged_from:
            return  # sent before the last episode: it says nothing new
        if self._tuning is not None:
            self._tuning.on_refused(send, self.sends + 1)
        self.pause.on_completion(overload=True, window=self.window.limit)
        if self.pause.is_overloaded(self.window.limit):
            self._judged_from = self.sends + 1
            self.pause.on_overload_episode(now, failure.message, self._rng)
            self.window.on_overload_episode(self.sends + 1)
