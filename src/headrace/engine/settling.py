"""What a send's result makes of its unit: the verdict applied, nothing else."""

from __future__ import annotations

import random

from msgspec import Struct

from headrace.engine.knobs import Knobs
from headrace.engine.lane import Lane
from headrace.engine.lanes import Lanes
from headrace.engine.work import Work
from headrace.policy.backoff import backoff_s
from headrace.policy.budget import may_be_billed
from headrace.policy.verdict import OVERLOAD, Action, Standing, decide
from headrace.protocols import Judge
from headrace.values import Answer, Attempt, Failure, Kind, Origin, Outcome, Reply, Sent, State, Usage


class Sending(Struct, frozen=True, gc=False):
    """One send that came back. `number` counts the lane's sends, `started_at` is wall time, `ended` loop time."""

    lane: Lane
    number: int
    started_at: float
    seconds: float
    ended: float


class Settled(Struct, frozen=True, gc=False):
    """`retry_after_s` is set where the unit goes on; `stop` where its endpoint cannot."""

    outcome: Outcome
    retry_after_s: float | None = None
    stop: Kind | None = None


CUT = Failure(Kind.AMBIGUOUS, "stopped before a reply came", Sent.MAYBE)  # what was in flight when the run was stopped at once
_STATES = {Action.FAIL: State.FAILED, Action.QUARANTINE: State.QUARANTINED, Action.STOP: State.PENDING}


class Settler:
    """Applies `policy.verdict` to results."""

    def __init__(self, knobs: Knobs, judges: tuple[Judge, Judge | None], lanes: Lanes, rng: random.Random) -> None:
        self._knobs = knobs
        self._judge, self._plain_judge = judges
        self._lanes = lanes
        self._rng = rng

    def judge(self, work: Work, reply: Reply, sending: Sending, *, stopping: bool) -> Outcome | Settled:
        """The outcome of an accepted answer, or what becomes of a unit whose answer is not acceptable."""
        judged = (self._judge_of(work) if work.plain else self._judge).judge(reply)
        if isinstance(judged, Failure):
            return self.fail(work, judged, reply, sending, stopping=stopping)
        return self._done(work, judged, reply, sending)

    def past_deadline(self, work: Work, now: float) -> Outcome:
        """A unit that is not sent again because its time is over."""
        age = self._age_s(work, now)
        return Outcome(
            unit=work.seq, state=State.FAILED, attempt=None, error=self._deadline_error(age), ask=work.ask, spent=work.spent,
            age_s=age,
        )  # fmt: skip

    def cut(self, work: Work, lane: Lane, started_at: float, seconds: float) -> Outcome:
        """In flight when the run was stopped at once: possibly billed, like a lease that a crash leaves open."""
        again = self._knobs.retry_ambiguous
        attempt = Attempt(
            unit=work.seq, ask=work.ask, started_at=started_at, seconds=seconds, config=self._knobs.config,
            endpoint=lane.number, kind=CUT.kind, sent=CUT.sent, message=CUT.message, origin=Origin.LOST,
            most=_most(work, lane, None),
        )  # fmt: skip
        return Outcome(
            unit=work.seq, state=State.PENDING if again else State.FAILED, attempt=attempt,
            error=None if again else f"{CUT.kind}: {CUT.message}", ask=work.ask, spent=work.spent,
            age_s=work.age_before_s,
        )  # fmt: skip

    def _done(self, work: Work, answer: Answer, reply: Reply, sending: Sending) -> Outcome:
        attempt = Attempt(
            unit=work.seq, ask=work.ask, started_at=sending.started_at, seconds=sending.seconds, config=self._knobs.config,
            endpoint=sending.lane.number, reply=reply, usage=reply.usage,
            most=_most(work, sending.lane, reply.usage),
        )  # fmt: skip
        return Outcome(
            unit=work.seq, state=State.DONE, attempt=attempt, answer=answer, ask=work.ask, spent=work.spent + 1,
            age_s=work.age_before_s + sending.ended - (work.first_sent or sending.ended),
        )  # fmt: skip

    def fail(self, work: Work, failure: Failure, reply: Reply | None, sending: Sending, *, stopping: bool) -> Settled:
        now = sending.ended
        knobs, lane = self._knobs, sending.lane
        excused = lane.breaker.is_down or now < lane.pause.until or (failure.refused and not lane.succeeded)
        verdict = decide(
            failure,
            Standing(work.spent, work.ask, knobs.max_attempts, knobs.retry_invalid, knobs.retry_ambiguous, excused),
        )
        usage = reply.usage if reply is not None else failure.usage
        attempt = Attempt(
            unit=work.seq, ask=work.ask, started_at=sending.started_at, seconds=sending.seconds, config=knobs.config,
            endpoint=lane.number, kind=failure.kind, sent=failure.sent, message=failure.message, status=failure.status,
            reply=reply, usage=usage,
            most=_most(work, lane, usage) if reply is not None or may_be_billed(failure.kind, failure.sent) else None,
        )  # fmt: skip
        work.spent += verdict.counts
        if failure.kind is Kind.TIMEOUT and failure.sent is not Sent.NO and not failure.mended:
            work.timeouts += 1
        age = self._age_s(work, now)
        has_others = self._lanes.has_others(lane)
        state, error, delay = _STATES.get(verdict.action, State.LEASED), None, None
        if verdict.action is Action.STOP and has_others:
            state = State.LEASED
        if state in {State.FAILED, State.QUARANTINED}:
            error = f"{verdict.kind}: {failure.message}"
        elif state is State.LEASED:
            if age >= knobs.unit_deadline_s and verdict.action is not Action.AGAIN:
                state, error = State.FAILED, self._deadline_error(age)
            else:
                delay = self._go_on(work, verdict.action, failure, reply)
                if verdict.action is Action.RETRY and failure.kind in OVERLOAD and not has_others:
                    delay = max(delay, failure.wait_s or 0.0)
        if stopping and state is State.LEASED:
            state, delay = State.PENDING, None
        outcome = Outcome(unit=work.seq, state=state, attempt=attempt, error=error, ask=work.ask, spent=work.spent, age_s=age)
        return Settled(outcome, delay, failure.kind if verdict.action is Action.STOP else None)

    def _go_on(self, work: Work, action: Action, failure: Failure, reply: Reply | None) -> float:
        """Make the unit ready for its next send; returns the seconds until then."""
        if action in {Action.AGAIN, Action.STOP}:
            return 0.0
        if action is Action.REASK:
            assert reply is not None
            work.on_reask(self._judge_of(work).reask(work.base, reply, failure))
            return 0.0
        work.failures += 1
        backoff = self._knobs.manners.backoff
        return backoff_s(work.failures, self._rng, backoff.first_s, backoff.longest_s)

    def _judge_of(self, work: Work) -> Judge:
        return self._plain_judge if work.plain and self._plain_judge is not None else self._judge

    def _age_s(self, work: Work, now: float) -> float:
        return work.age_s(now, self._lanes.stopped_s(now))

    def _deadline_error(self, age: float) -> str:
        return f"{Kind.DEADLINE}: not settled {age:.0f} s after its first send (limits.unit_deadline)"


def _most(work: Work, lane: Lane, usage: Usage | None) -> tuple[int, int] | None:
    """What a send may have taken where its usage does not say it. Its payload is that of the send, not yet that of a re-ask."""
    is_known = usage is not None and usage.prompt is not None and usage.completion is not None
    return None if is_known else lane.bound.of(len(work.payload))
