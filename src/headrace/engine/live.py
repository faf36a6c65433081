"""The live loop: dispatch, settle, stop. One event loop; a task exists only for what is in flight."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from headrace.engine.bounds import keep
from headrace.engine.committer import Committer
from headrace.engine.feed import Feed
from headrace.engine.gauging import follow
from headrace.engine.knobs import Ending, Knobs, Parts, Start
from headrace.engine.lane import Lane
from headrace.engine.lanes import Lanes
from headrace.engine.pool import Pool
from headrace.engine.preflight import Preflight
from headrace.engine.reasons import Reasons
from headrace.engine.runners import Runners
from headrace.engine.settling import CUT, Sending, Settled, Settler
from headrace.engine.stalls import Stalls
from headrace.engine.supply import Reading, Supply
from headrace.engine.tally import Tally
from headrace.engine.watch import Watch
from headrace.engine.work import Work
from headrace.errors import HeadraceError, InputBrokenError, LedgerError
from headrace.events import EndpointBack, EndpointDown, Event, Stopping, Tried, Warned
from headrace.policy.truncation import LEAST_BYTES
from headrace.protocols import Batch
from headrace.values import Failure, Kind, Outcome, Reply, Request, Sent, Usage


class LiveEngine:
    """Settles every pending unit against its endpoints. Satisfies `headrace.protocols.Executor`. Used once."""

    def __init__(self, knobs: Knobs, parts: Parts, start: Start) -> None:
        self.knobs = knobs
        self.tally = Tally()
        self.budget = knobs.budget(parts.endpoints, start.spent)
        self.lanes = Lanes(parts.endpoints, knobs, parts.rng, self.budget)
        self.committer = Committer(parts.ledger, (parts.offload_rows, parts.offload_ledger), self._on_landed, self._on_broken)
        for lane in self.lanes.all:
            keep(lane, self.committer, knobs.config)
        pool = Pool(knobs.order, knobs.shared_bytes)
        reading = Reading(parts.intake, parts.offload_intake, self.tally.on_intaken)
        supply = Supply(reading, self.committer, pool, start=start)
        self.feed = Feed(supply, self.committer, pool)
        self.feed.on_dry(self._on_fed)
        self.settled_before = start.recorded + start.made - start.open_units
        self._settler = Settler(knobs, (parts.judge, parts.plain_judge), self.lanes, parts.rng)
        self._start_ending = start.ending
        self.stalls = Stalls()
        self._watch = Watch(self)
        self._reasons = Reasons(self)
        self.preflight = Preflight(self, self._reasons)
        self._clock = parts.clock
        self._observers = parts.observers
        self._ending: Ending | None = None
        self._finished = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._runners = Runners(self)
        self._fed = False
        self._input_error: HeadraceError | None = None

    # -- what stands open

    @property
    def open_units(self) -> int:
        """Units known and not settled."""
        return self.feed.total - self.settled_before - self.tally.settled

    def wall_now(self) -> float:
        return self._clock.now()

    @property
    def is_stopping(self) -> bool:
        return self._ending is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing will be sent any more."""
        return self._ending is not None or self._finished.is_set()

    # -- running

    async def run(self) -> Ending:
        """Until everything is settled or a stop has drained. Raises InputError where the input cannot be used at all."""
        self._loop = loop = asyncio.get_running_loop()
        committing = loop.create_task(self.committer.run())
        committing.add_done_callback(self._on_committer_done)
        try:
            if self.budget is not None:
                self.budget.on_near = self._tell_near
                self.budget.look()
            async with asyncio.TaskGroup() as tasks:
                self._runners.open(tasks)
                tasks.create_task(self._supply())
                watching = [tasks.create_task(self._watch.run())]
                watching += [tasks.create_task(follow(self, lane)) for lane in self.lanes.all]
                if self.knobs.run_deadline_s is not None:
                    self._timers.append(loop.call_later(self.knobs.run_deadline_s, self._on_run_deadline))
                self.feed.on_window(self.lanes.limit)
                if (ending := self._start_ending) is not None and ending.reason is not None:
                    patience_s = self.knobs.drain_s if ending.reason == "interrupted" else None
                    self.stop(ending.reason, ending.message or ending.reason, ending.exit_code, reading_s=patience_s)
                await self._finished.wait()
                for task in watching:
                    task.cancel()
        finally:
            self._runners.close()
            for timer in self._timers:
                timer.cancel()
            self.committer.finish()
            await committing
        return self._judge_ending()

    def _judge_ending(self) -> Ending:
        ending = self._ending or Ending()
        error = self._input_error
        if error is not None and not isinstance(error, InputBrokenError | LedgerError):
            raise error
        complete = self.feed.read_done and error is None
        if self.committer.broken is not None:
            ending = Ending("disk", str(self.committer.broken), 7)
        return Ending(ending.reason, ending.message, ending.exit_code, input_complete=complete)

    async def _supply(self) -> None:
        """What was read before the input broke off stands and is finished first; then the run ends with the reason."""
        await self.feed.run()
        self._on_fed()

    def _on_fed(self) -> None:
        self._input_error = self.feed.intake_error
        if not self._fed and self._ending is None and self.feed.read_done:
            self._reasons.on_input_read()
        self._fed = True
        self._check_end()

    def dispatch(self) -> None:
        """Send while the endpoint takes more and there is something to send."""
        if not self._runners.can_start or self._ending is not None:
            return
        while (work := self.next_work()) is not None:
            self._runners.start(work)
        self.arm()

    def next_work(self) -> Work | None:
        """The unit that goes next, its slot taken; None: none now."""
        now = self.time()
        lanes = self.lanes
        while self._ending is None:
            lane = lanes.free(now, self._unsent)
            if lane is None:
                if self.budget is not None and not self.budget.in_flight:
                    self._reasons.on_budget()
                return None
            work = self.feed.take(now, prefer_fresh=lane.breaker.is_down)
            if work is None:
                return None
            if work.first_sent is not None and work.age_s(now, lanes.stopped_s(now)) >= self.knobs.unit_deadline_s:
                self._finish_unsent(work, now)
                continue
            if not lane.has_room(work):
                self.feed.put_back(work, now)
                continue
            if work.first_sent is None:
                work.on_sent(now, lanes.stopped_s(now))
            work.lane = lane
            # The slot is taken here, before the task that sends has run: nothing else may take it.
            work.send = lane.on_sent(work, now)
            return work
        return None

    def _unsent(self) -> int | None:
        """How many units are left to send; None while the input is still read."""
        return self.open_units - self.lanes.in_flight if self.feed.read_done else None

    def release_unsent(self, work: Work) -> None:
        """A slot was taken for the unit, and the runner ended before its next step: it was never sent."""
        assert work.lane is not None
        work.lane.on_back(work, None)
        self.committer.batch.released.append(work.seq)
        self.committer.added()
        self._check_end()

    async def send(self, work: Work) -> None:
        """Send a unit and settle what comes of it."""
        lane, loop = work.lane, self._loop
        assert lane is not None
        started, started_at = loop.time(), self._clock.now()
        key = f"{self.knobs.run}-{work.seq}-{work.ask}"
        request = Request(work.seq, work.ask, work.payload, key, self._timeout_s(work, lane, started), work.plain)
        try:
            result = await lane.endpoint.send(request)
        except asyncio.CancelledError:
            lane.on_back(work, CUT)
            seconds = loop.time() - started
            self._record_unanswered(self._settler.cut(work, lane, started_at, seconds))
            self._tell_tried(lane, CUT.kind, seconds, None, goes_on=False)
            if self._ending is None:
                raise
            self._check_end()
            return
        lane.on_back(work, result)
        self.feed.on_back(work, result)
        now = self.time()
        if work.reserved is not None or result.limits is not None:
            lane.on_result(work, result, now)
        sending = Sending(lane, work.send, started_at, round(now - started, 6), now)
        if isinstance(result, Reply):
            self._on_reply(work, result, sending)
        else:
            self._on_failure(work, result, sending)
        if self._fed or self._ending is not None:
            self._check_end()

    def _timeout_s(self, work: Work, lane: Lane, now: float) -> float:
        """The attempt's limit; a unit that is near its deadline gets what is left."""
        left = self.knobs.unit_deadline_s
        if work.failures or work.age_before_s:
            left -= work.age_s(now, self.lanes.stopped_s(now))
        return min(lane.limits.next_s(work.timeouts, len(work.payload)), max(left, 1.0))

    def time(self) -> float:
        """Loop time. A stall of this process is noticed before anything is judged by the time that has passed."""
        now = self._loop.time()
        if now > self.stalls.late_at:
            self.lanes.on_stall(now, self.stalls.note(now))
        return now

    # -- settling

    def _on_reply(self, work: Work, reply: Reply, sending: Sending) -> None:
        lane = sending.lane
        down_since, is_first = lane.breaker.down_since, lane.canary is not None
        lane.on_reply(sending.number, sending.seconds, sending.ended, reply.usage)
        stalled_s = self.stalls.within(sending.ended - sending.seconds)
        lane.limits.on_reply(sending.seconds - stalled_s, len(work.payload), sending.ended)
        if lane.breaker.down_since != down_since:
            self._tell_health(lane, down_since, sending.ended)
        settled = self._settler.judge(work, reply, sending, stopping=self._ending is not None)
        if reply.usage is not None and len(work.payload) >= LEAST_BYTES and lane.prompts.is_suspect(work.payload, reply.usage):
            settled = self.preflight.on_suspect(lane, settled, reply.usage)
        if isinstance(settled, Outcome):
            self.committer.batch.outcomes.append(settled)
            self.committer.added()
            self.tally.on_done(reply.usage)
            lane.settled += 1
            if self._observers:
                self._tell_tried(lane, None, sending.seconds, reply.usage, goes_on=False)
        else:
            self._record(settled, work, sending)
            attempt = settled.outcome.attempt
            if settled.stop is not None and attempt is not None:
                self._reasons.on_useless(lane, settled.stop, attempt.message or "")
        if lane.window.limit != lane.limit_told:
            self.on_window(lane)
        if is_first:
            self.preflight.on_first_reply(lane, settled)
            self.dispatch()

    def _on_failure(self, work: Work, failure: Failure, sending: Sending) -> None:
        lane, now = sending.lane, sending.ended
        down_since = lane.breaker.down_since
        if failure.kind is Kind.TIMEOUT and failure.status is None:
            failure = self._timed_out(failure, lane, sending)
        lane.on_failure(work, sending.number, failure, now, allow_open=not self.feed.read_done or self.open_units >= 3)
        if lane.breaker.down_since != down_since:
            self._tell_health(lane, down_since, now)
        settled = self._settler.fail(work, failure, None, sending, stopping=self._ending is not None)
        self._record(settled, work, sending)
        if failure.learnt is not None:
            self.tell(Warned(f"{lane.endpoint.name}: {failure.message.rstrip('. ')}; {failure.learnt}"))
        self.on_window(lane)
        self._reasons.on_failure(work, failure, settled, sending)

    def on_window(self, lane: Lane) -> None:
        """So many are kept ready as may be in flight: a lane's window has changed, or its endpoint is not asked any more."""
        lane.limit_told = lane.window.limit
        self.feed.on_window(self.lanes.limit)

    def _timed_out(self, failure: Failure, lane: Lane, sending: Sending) -> Failure:
        """An attempt whose time this process has slept through has had none of it: it is sent again and does not count."""
        stalled_s = self.stalls.within(sending.ended - sending.seconds)
        if not stalled_s:
            lane.on_timeout(sending.seconds, sending.ended)
            return failure
        message = f"{failure.message}; this process did not run for {stalled_s:.0f} s of it"
        return replace(failure, message=message, mended=self.knobs.retry_ambiguous or failure.sent is not Sent.MAYBE)

    def _tell_health(self, lane: Lane, down_since: float | None, now: float) -> None:
        """The endpoint is held to be down from now on, or no longer. `down_since`: as it was."""
        breaker, name = lane.breaker, lane.endpoint.name
        if breaker.is_down:
            self.tell(EndpointDown(name, breaker.probe_at - now, breaker.why))
        else:
            self.tell(EndpointBack(name, now - (down_since or now)))

    def _tell_tried(self, lane: Lane, kind: Kind | None, seconds: float, usage: Usage | None, *, goes_on: bool) -> None:
        prompt, completion, cached = (0, 0, 0) if usage is None else (usage.prompt or 0, usage.completion or 0, usage.cached or 0)
        self.tell(Tried(lane.endpoint.name, kind, seconds, prompt, completion, cached, goes_on))

    def _record(self, settled: Settled, work: Work, sending: Sending) -> None:
        outcome, lane, now = settled.outcome, sending.lane, sending.ended
        self.committer.batch.outcomes.append(outcome)
        self.committer.added()
        self.tally.on_outcome(outcome)
        attempt = outcome.attempt
        if attempt is not None:
            self.tally.on_usage(attempt.usage)
            if self._observers:
                goes_on = settled.retry_after_s is not None
                self._tell_tried(lane, attempt.kind, sending.seconds, attempt.usage, goes_on=goes_on)
        if settled.retry_after_s is None:
            lane.settled += 1
        else:
            self.tally.retries += 1
            lane.retries += 1
            self.feed.retry_at(now + settled.retry_after_s, work)
            if settled.retry_after_s == 0.0:
                self.committer.hurry()

    def _finish_unsent(self, work: Work, now: float) -> None:
        """A unit whose deadline passed while it waited for its next try."""
        self.feed.on_back(work, None)
        self._record_unanswered(self._settler.past_deadline(work, now))
        if self._fed:
            self._check_end()

    def _record_unanswered(self, outcome: Outcome) -> None:
        """What becomes of a unit to which no result came."""
        self.committer.batch.outcomes.append(outcome)
        self.committer.added()
        self.tally.on_outcome(outcome)

    # -- stopping

    def _tell_near(self, message: str) -> None:
        self.tell(Warned(message))

    def _on_run_deadline(self) -> None:
        self.stop("run_deadline", "limits.run_deadline has passed", 5)

    def interrupt(self, exit_code: int) -> None:
        """Ctrl-C or SIGTERM: the first drains what is in flight, the second stops at once. Loses no committed answer."""
        if self._ending is not None:
            self._cut()
            return
        self.stop("interrupted", "interrupted", exit_code, reading_s=self.knobs.drain_s)

    def stop(self, reason: str, message: str, exit_code: int, *, reading_s: float | None = None) -> None:
        """Send nothing more; keep what is in flight, finish reading, end. The first reason stands."""
        if self._ending is not None:
            return
        now = self._loop.time()
        self._ending = Ending(reason, message, exit_code)
        self._runners.release()
        self.committer.batch.released.extend(self.feed.stop(now + (reading_s or self.knobs.finish_reading_s)))
        self.committer.added()
        self.tell(Stopping(reason, message, self.lanes.in_flight))
        self._timers.append(self._loop.call_at(now + self.knobs.drain_s, self._cut))
        self._check_end()

    def _cut(self) -> None:
        """End what is still in flight."""
        self._runners.cancel()
        self.feed.stop(0.0)
        self._check_end()

    def _on_broken(self, error: LedgerError) -> None:
        self.stop("disk", str(error), 7, reading_s=0.001)

    def _on_committer_done(self, committing: asyncio.Task[None]) -> None:
        """What it raised is a bug, since a failed write is none: `run` ends with it instead of waiting for commits forever."""
        if committing.cancelled() or committing.exception() is None:
            return
        self._runners.cancel()
        self.feed.stop(0.0)
        self._finish()

    # -- the end

    def _on_landed(self, batch: Batch) -> None:
        self.feed.on_landed(batch)
        for outcome in batch.answered:
            self.tally.on_outcome(outcome)
        self.dispatch()
        self._check_end()

    def _check_end(self) -> None:
        if self._finished.is_set() or not self._fed or self.lanes.in_flight:
            return
        if self.feed.made.may_come and self._ending is None and not self.committer.idle:
            return  # what is being written may be the last of the answers that a further request joins
        starved = not self.feed.has_supply and not self.feed.waiting and self.committer.idle
        if starved and self._input_error is None and self._ending is None and self.open_units > 0:
            raise RuntimeError(f"{self.open_units} units are neither settled nor on their way")
        if self._ending is None and (self.open_units <= 0 or starved):
            if self._input_error is not None:
                self._ending = Ending("input", str(self._input_error), 7)
            self._finish()
        elif self._ending is not None:
            self._finish()

    def _finish(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._watch.tell_progress()
        self._finished.set()
        self.feed.finish()
        self._runners.release()

    # -- time

    def arm(self) -> None:
        """One alarm: when a retry is due, a pause ends, a probe may go, or it is time to give up."""
        if self._ending is not None:
            return
        now = self._loop.time()
        when = self.lanes.next_chance(now, self.feed.next_due, has_supply=self.feed.has_supply)
        if self.lanes.in_trouble:
            give_up = now + self._reasons.patience_s(now)
            when = give_up if when is None else min(when, give_up)
        if when is None:
            return
        if self._alarm is not None:
            if now < self._alarm_at <= when:
                return
            self._alarm.cancel()
        # uvloop's handles cannot tell their time, so it is kept beside them.
        self._alarm, self._alarm_at = self._loop.call_at(when, self._on_alarm), when

    def _on_alarm(self) -> None:
        self._alarm = None
        self._reasons.on_time(self.time())
        self.dispatch()

    def tell(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)
