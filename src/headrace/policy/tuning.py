"""How many requests may be in flight where nobody has picked a number: the window that finds the server's knee."""

from __future__ import annotations

import math

from headrace.policy.climb import Climb
from headrace.policy.evidence import Evidence, gain, is_bent, may_equal
from headrace.policy.refusals import Refusals
from headrace.policy.stages import (
    AS_GOOD,
    BENT,
    CHANGED,
    EQUAL,
    FINE,
    FIRST_REST,
    LEAST_JUDGED,
    LONGEST_REST,
    LONGEST_REST_UNITS,
    MARGIN,
    MOST_BROKEN,
    MOST_UPS,
    NEAR,
    PROPORTIONAL,
    RAMP,
    STEEP,
    STEP,
    STILL_GROWS,
    SURE,
    SURGE,
    TIGHT,
    WORTH,
    Stage,
)  # fmt: skip
from headrace.policy.window import Move

AUTO_START = 6
AUTO_MOST = 512


class TuningWindow:
    """Finds the smallest window that delivers all the server can, and follows it. No gauge is needed.

    Evidence is what completions deliver while the window is full: a slow source, ledger or event loop leaves it not full,
    and nothing is learnt then. What was sent under an older window is not counted, nor the first round under a new one,
    when the server's queue is still that of the old. Refusals and timeouts take off as many as came, down to half in an
    episode, and only where they come more often than is usual. Sends are numbered from 1, times are loop time.
    """

    def __init__(self, start: int, least: int = 1, most: int = AUTO_MOST) -> None:
        self.least = least
        self.ceiling = most
        self.limit = self._start = min(max(start, least), most)
        self.stage = Stage.RAMP
        self._held = self.limit  # the best window known
        self._held_evidence: Evidence | None = None  # what it delivers
        self._evidence = Evidence()
        self._since = 1  # the first send that counts
        self._to_skip = 0  # completions of a new window that are not counted yet
        self._climb = Climb(0.0, self.limit)
        self._climbed: Climb | None = None  # the ramp's last step
        self._rest = FIRST_REST
        self._rested = 0
        self._goes_up = True  # the next probe's direction
        self._ups = self._ups_left = 1  # probes up before the next one down: more where going down has cost
        self._down_to: int | None = None  # a sag of the server's pace names where to look
        self._sagged = False  # the probe that runs goes there
        self._is_stale = False  # what is held must be measured anew before it is compared
        self._is_capped = False  # a larger window was refused
        self._below: Evidence | None = None  # what a smaller window delivered: less
        self._unsure: tuple[int, Evidence] | None = None  # what was held before a step up that is to be confirmed
        self._up_to: int | None = None  # where the next probe up goes, between what is held and what was too many
        self._too_many: int | None = None
        self._refuted: int | None = None  # this did not pay before: only a clear gain may say otherwise
        self._step = STEP  # the next probe up: longer where the last one paid well
        self._refusals = Refusals()
        self._episode: tuple[int, int] = (0, 0)  # the first send of the window that was cut last, and how far it may be cut
        self._broken = 0  # how many of what was told have been refused

    # -- what is observed

    def on_delivered(self, send: int, seconds: float, work: float, in_flight: int, now: float, next_send: int) -> Move | None:
        """A reply. `in_flight` counts it too; `work` is in tokens; `next_send` numbers what is sent next."""
        self._refusals.on_answer(counts=send >= self._since)
        if self.stage is Stage.TOLD:
            return None
        is_full = in_flight >= self.limit - self.limit // 10
        if self.stage is Stage.RAMP:
            return self._ramp(send, seconds, work, is_full=is_full, now=now, next_send=next_send)
        if send < self._since or not is_full:
            return None
        if self._to_skip > 0:
            self._to_skip -= 1
            return None
        evidence = self._evidence
        evidence.add(seconds, work, in_flight)
        return self._hold(evidence, next_send) if self.stage is Stage.HOLD else self._probe(evidence, next_send)

    def on_refused(self, send: int, next_send: int) -> Move | None:
        """A refusal for overload, or a timeout."""
        was_usual = self._refusals.are_usual
        is_news = self._refusals.on_refusal(counts=send >= self._since)
        if send < self._since:
            began, least = self._episode
            if send < began or self.limit <= least or self.stage is not Stage.HOLD:
                return None
            self._broken += self._broken > 0
            self._held = self.limit = self.limit - 1  # the rest of what the cut window had in flight
            return Move(self.limit, "refusals_cut")
        if not is_news:
            return None
        self._broken = max(self._broken, int(self.stage is Stage.TOLD))
        is_trial = self.limit > self._held
        least = self._held if is_trial else max(self.least, self.limit // 2)
        self._episode = (next_send if was_usual else self._since, least)
        self._is_capped = True
        return self._settle(max(self.limit - self._refusals.count, least), "refusals_cut", next_send)

    def on_overload_episode(self, next_send: int) -> Move | None:
        """Overload has been judged endpoint-wide: halve, once for what was sent since the last change."""
        if next_send <= self._since:
            return None
        self._is_capped = True
        self._episode = (next_send, self.limit)
        return self._settle(self.limit // 2, "overload_halves", next_send)

    def bound(self, most: int | None) -> None:
        """The server refuses more than so many."""
        if most is not None and most < self.ceiling:
            self.ceiling = max(most, self.least)

    def on_told(self, limit: int | None, next_send: int) -> Move | None:
        """The server's own figures allow so many: they are taken at once, and nothing is tried. None: they say nothing any more.

        Where such a window is refused all the same, it is searched for below.
        """
        if limit is None:
            return self._settle(self.limit, "told_no_more", next_send) if self.stage is Stage.TOLD else None
        limit = min(max(limit, self.least), self.ceiling)
        if self._broken >= MOST_BROKEN or self._refusals.are_usual:
            return self._settle(limit, "told_less", next_send) if limit < self.limit else None
        if self.stage is Stage.TOLD and limit == self.limit:
            return None
        self._held, self._broken = limit, 0
        return self._change(limit, Stage.TOLD, "told", next_send)

    def on_queue(self, next_send: int) -> Move | None:
        """The server says that requests of ours wait there: more of them would wait as well."""
        if self.stage is Stage.RAMP:
            return self._settle(self.limit, "queue_ends_ramp", next_send)
        if self.stage is Stage.UP:
            return self._change(self._held, Stage.HOLD, "queue_ends_probe", next_send)
        self._goes_up = False
        return None

    def on_return(self, now: float, next_send: int) -> Move | None:
        """The server was away for long: what was known of it need not hold. Ramp anew from where the run began."""
        move = self._settle(min(self.limit, self._start), "returned", next_send)
        self.stage, self._climb, self._climbed = Stage.RAMP, Climb(now, self.limit), None
        return move

    # -- what follows

    def _ramp(self, send: int, seconds: float, work: float, *, is_full: bool, now: float, next_send: int) -> Move | None:
        """Double while that delivers more. A step is judged when what it added has come back: until then a server that
        holds more has delivered old and new, and one that does not has only made a queue.
        """
        climb = self._climb
        if not climb.completions and self._since == 1:
            climb.began = now - seconds
        if not is_full:
            self._since, self._climb = next_send, Climb(now, climb.added)  # nothing is learnt: begin anew
            return None
        if not climb.is_back(now, work, is_added=self._since <= send < self._since + climb.added):
            return None
        before = self._climbed
        limit = self.limit
        if before is not None:
            ratio = climb.ratio(before)
            grown, likely = limit / self._held, climb.likely(ratio)
            if likely < grown**STILL_GROWS:
                return self._settle(min(limit, round(self._held * max(1.0, ratio))), "ramp_ends", next_send)
            if likely < grown**PROPORTIONAL:
                return self._settle(min(limit, round(self._held * max(1.0, likely) * MARGIN)), "ramp_slows", next_send)
        self._held, self._climbed = limit, climb
        if limit >= self.ceiling:
            return self._settle(limit, "ceiling", next_send)
        return self._begin_climb(now, next_send)

    def _begin_climb(self, now: float, next_send: int) -> Move | None:
        before = self.limit
        move = self._change(round(before * RAMP), Stage.RAMP, "ramp", next_send)
        self._climb = Climb(now, self.limit - before)
        return move

    def _hold(self, evidence: Evidence, next_send: int) -> Move | None:
        rounds = 1 if self._is_stale else 2
        if evidence.completions < rounds * max(self.limit, LEAST_JUDGED):
            return None
        before, self._held_evidence, self._evidence = self._held_evidence, evidence, Evidence()
        self._refusals.forget()
        if self._unsure is not None:
            (was, delivered), self._unsure = self._unsure, None
            evidence.add_all(before)
            ratio, _ = gain(delivered, evidence)
            if not self._is_better(delivered, evidence, self.limit / was):
                return self._go_back(was, delivered, ratio, next_send)
            self._below = delivered
            if self._refuted is not None and self.limit >= self._refuted:
                self._refuted = None
        if before is not None and not self._is_stale:
            ratio, error = gain(before, evidence)
            if abs(ratio - 1) > max(CHANGED, 3 * error):
                self._is_stale, self._to_skip = True, self.limit
                self._goes_up = ratio > 1
                self._down_to = None if ratio > 1 else max(self.limit // 2, round(self.limit * ratio))
                self._rest, self._ups_left = FIRST_REST, 1
                self._below = self._up_to = self._too_many = self._refuted = None
                return None
            evidence.add_all(before)
        self._rested += rounds * max(self.limit, LEAST_JUDGED)
        if evidence.completions > 8 * rounds * max(self.limit, LEAST_JUDGED):
            evidence.fade()
        rest = min(min(self._rest, LONGEST_REST) * self.limit, max(LONGEST_REST_UNITS, LONGEST_REST // 2 * self.limit))
        if not self._is_stale and self._rested < rest:
            return None
        self._is_stale = False
        return self._begin_probe(next_send)

    def _begin_probe(self, next_send: int) -> Move | None:
        self._rested = 0
        up, held = self._goes_up, self._held
        if up and held >= self.ceiling:
            up = self._goes_up = False
        if not up and held <= self.least:
            up = self._goes_up = True
        if up:
            wanted, self._step, self._up_to = self._up_to or round(held * self._step), STEP, None
            if self._refuted is not None and wanted >= self._refuted:
                wanted = max(round(held * NEAR), round((held * self._refuted) ** 0.5))
            return self._change(held + 1 if self._is_capped else max(held + 1, wanted), Stage.UP, "probe_up", next_send)
        wanted, self._sagged, self._down_to = self._down_to or int(held / STEP), self._down_to is not None, None
        return self._change(min(wanted, held - 1), Stage.DOWN, "probe_down", next_send)

    def _probe(self, evidence: Evidence, next_send: int) -> Move | None:
        held = self._held_evidence
        limit, seen = self.limit, evidence.completions
        if held is None or seen < max(limit, LEAST_JUDGED):
            return None
        is_up = self.stage is Stage.UP
        ratio, error = gain(held, evidence)
        wanted = (limit / self._held) ** WORTH if is_up else AS_GOOD if self._is_between else EQUAL
        is_clear = abs(ratio - wanted) > 2 * error or error <= SURE
        if not is_clear and seen < max(3 * limit, 12 * LEAST_JUDGED):
            return None
        if is_up:
            return self._tried_more(held, evidence, ratio, next_send)
        return self._tried_less(held, evidence, ratio, next_send, is_as_good=ratio + error >= wanted)

    @property
    def _is_between(self) -> bool:
        """Whether the smaller window that is tried was sought between a poor one and the one that is held."""
        return self.limit * STEP > self._held * TIGHT

    def _is_better(self, held: Evidence, more: Evidence, grown: float) -> bool:
        """Whether a larger window pays: it delivers more, and the server does not yet queue what it adds."""
        worth = WORTH if self._refuted is None else STEEP
        return gain(held, more).ratio >= grown**worth and not is_bent(self._below, held, more, BENT)

    def _tried_more(self, held: Evidence, evidence: Evidence, ratio: float, next_send: int) -> Move | None:
        was, tried = self._held, self.limit
        was_capped, self._is_capped = self._is_capped, False  # so many were not refused
        grown = tried / was
        if not self._is_better(held, evidence, grown):
            return self._go_back(was, held, ratio, next_send)
        if not was_capped:
            self._step = 2.0 if ratio >= grown**PROPORTIONAL else 1.35 if ratio >= grown**STEEP else STEP
        if self._too_many is not None:
            self._up_to = self._between(tried, self._too_many)
            self._goes_up = self._up_to is not None
        # What follows the first surge of a larger window must say the same before it is kept.
        self._unsure = (was, held)
        self._held, self._held_evidence, self._rest = tried, evidence, FIRST_REST
        self.stage, self._evidence = Stage.HOLD, Evidence()
        self._is_stale = True
        return None

    def _go_back(self, was: int, delivered: Evidence, ratio: float, next_send: int) -> Move | None:
        """A larger window was not better: the knee may lie between."""
        tried, self._held, self._held_evidence = self.limit, was, delivered
        is_new = self._refuted is None or tried < self._refuted
        if is_new:
            self._refuted = tried
        self._step = STEP
        self._up_to = self._between(was, tried) if is_new and ratio > 1 and tried > was * FINE else None
        self._too_many, self._is_stale = (tried, True) if self._up_to is not None else (None, False)
        self._goes_up = True
        if self._up_to is None:
            self._rest = min(2 * self._rest, LONGEST_REST)
            self._ups_left -= 1
            self._goes_up = self._ups_left > 0
        return self._change(was, Stage.HOLD, "no_gain", next_send)

    def _tried_less(self, held: Evidence, evidence: Evidence, ratio: float, next_send: int, *, is_as_good: bool) -> Move | None:
        if self._sagged:  # the pace has changed: so much depends on the answer that either measure may give it
            is_as_good = may_equal(held, evidence, EQUAL)
            self._sagged = False
        if is_as_good or is_bent(self._below, evidence, held, 2 * BENT):
            self._held, self._held_evidence, self._rest = self.limit, evidence, FIRST_REST
            return self._begin_probe(next_send)
        self._below = evidence
        enough = math.ceil(self.limit / ratio)  # if the server delivers in proportion up to its knee
        if self.limit < enough <= self._held / TIGHT:
            return self._change(enough, Stage.DOWN, "probe_between", next_send)
        self._goes_up = True
        self._ups_left = self._ups = min(2 * self._ups, MOST_UPS)
        self._rest = min(2 * self._rest, LONGEST_REST)
        return self._change(self._held, Stage.HOLD, "loss", next_send)

    def _between(self, enough: int, too_many: int) -> int | None:
        """Where to look between a window that is good and one that is too large; None: they are near enough."""
        middle = round((enough * too_many) ** 0.5)
        return middle if enough * NEAR <= middle < too_many else None

    def _settle(self, limit: int, rule: str, next_send: int) -> Move | None:
        """A new best window whose delivery is not known yet."""
        self._held = min(max(limit, self.least), self.ceiling)
        self._held_evidence = self._below = self._unsure = self._up_to = self._too_many = self._refuted = None
        self._ups = self._ups_left = 1
        self._goes_up = self._is_stale = not self._is_capped
        self._rest, self._rested = FIRST_REST, 0
        return self._change(self._held, Stage.HOLD, rule, next_send)

    def _change(self, limit: int, stage: Stage, rule: str, next_send: int) -> Move | None:
        before, self.limit = self.limit, min(max(limit, self.least), self.ceiling)
        self.stage = stage
        self._since = next_send
        self._to_skip = 0 if stage is Stage.RAMP else round(self.limit * (SURGE if stage is Stage.UP else 1))
        self._evidence = Evidence()
        self._refusals.forget()
        return Move(self.limit, rule) if self.limit != before else None
