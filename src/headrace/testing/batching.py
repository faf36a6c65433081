"""Continuous batching with a bounded KV cache, in steps as vLLM takes them: what does not fit is put back and computed again."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headrace.testing.laws import Laws

MOST_PREFILLED = 2048


class Owner(Protocol):
    """Whoever waits for a place or for an answer; called on its own turn of the loop or at the end of a step."""

    def granted(self) -> None: ...


class Slots:
    """So many requests are served at once; the others queue, first come, first served. `allowed` may change; 0: no bound."""

    def __init__(self, allowed: Callable[[], int]) -> None:
        self._allowed = allowed
        self._taken = 0
        self._queue: dict[Owner, None] = {}

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def take(self, owner: Owner) -> bool:
        """Whether a slot is the owner's now; else it queues and is `granted` one later."""
        allowed = self._allowed()
        if allowed and (self._taken >= allowed or self._queue):
            self._queue[owner] = None
            return False
        self._taken += 1
        return True

    def leave(self, owner: Owner) -> bool:
        """Stop queueing; whether the owner did queue."""
        return owner in self._queue and self._queue.pop(owner) is None

    def give_back(self) -> None:
        """A slot is free again; more than one is handed on where more have become allowed meanwhile."""
        self._taken -= 1
        while self._queue and (self._taken < self._allowed() or not self._allowed()):
            owner = next(iter(self._queue))
            del self._queue[owner]
            self._taken += 1
            owner.granted()


class Job:
    """One request inside the batch. `prompt` tokens take room, `fresh` of them are computed, `answer` are to be generated."""

    __slots__ = ("admitted", "answer", "fresh", "generated", "left", "on_computed", "on_done", "prompt")

    def __init__(
        self, prompt: int, fresh: int, answer: int, on_computed: Callable[[], None], on_done: Callable[[], None]
    ) -> None:
        self.prompt = prompt
        self.fresh = fresh
        self.answer = max(1, answer)
        self.on_computed = on_computed
        self.on_done = on_done
        self.generated = 0
        self.admitted = -1  # the step at whose beginning it was taken in; -1: it waits
        self.left = False


class Batching:
    """A batch that a step takes further: a step lasts `decode_s`, and `prefill_s` for each prompt token computed in it.

    A waiting request is taken in while its prompt fits. Each step adds a token to every request in the batch; when they
    no longer fit, the newest is put back to the head of the queue and later computes its prompt and its answer so far
    again (`recomputed` counts those tokens). `allowed` and `seats` give tokens and requests that fit now; no seats: 0.
    """

    def __init__(self, *, decode_s: float, prefill_s: float, allowed: Callable[[], int], seats: Callable[[], int]) -> None:
        self._decode_s = max(decode_s, 1e-6)
        self._prefill_s = prefill_s
        self._allowed = allowed
        self._seats = seats
        self._waiting: deque[Job] = deque()
        self._running: dict[Job, None] = {}
        self._ends: list[tuple[int, int, Job, int]] = []
        self._order = 0
        self._step = 0  # steps ended
        self._ended_at = 0.0  # when the last one did
        self._first_s = self._decode_s  # what the step that runs now lasts
        self._used = 0
        self._left_over = 0
        self._timer: asyncio.TimerHandle | None = None
        self.recomputed = 0
        self.computed = 0
        self.preemptions = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Those for whom the step that runs had no room. Who came during it and fits into the next one is not counted: a real
        server counts as it begins a step.
        """
        return self._left_over if self._admits() else len(self._waiting)

    @property
    def used(self) -> int:
        """Tokens held now, those of the steps that have ended since something last happened included."""
        if not self._running:
            return 0
        passed = asyncio.get_running_loop().time() - self._ended_at - self._first_s
        steps = 1 + int(passed // self._decode_s) if passed >= 0 else 0
        return self._used + steps * len(self._running)

    def enter(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        self._waiting.append(job)
        if self._timer is None:
            self._ended_at = loop.time()
            self._begin()
        elif self._admits():
            self._plan()

    def leave(self, job: Job) -> None:
        """Whoever asked has gone: its room is free at once."""
        job.left = True
        if job in self._running:
            self._drop(job)
        elif job.admitted < 0 and job in self._waiting:
            self._waiting.remove(job)

    def _tokens(self, job: Job) -> int:
        done = self._step - job.admitted if job.admitted >= 0 else 0
        return job.prompt + job.generated + done

    def _drop(self, job: Job) -> None:
        self._used -= self._tokens(job)
        del self._running[job]

    def _admits(self) -> bool:
        seats = self._seats()
        if not self._waiting or (seats and len(self._running) >= seats):
            return False
        job = self._waiting[0]
        return not self._running or self._used + len(self._running) + job.prompt + job.generated + 1 <= self._allowed()

    def _begin(self) -> None:
        """A step begins: take in what fits, and plan when something happens next."""
        fresh = 0
        while fresh < MOST_PREFILLED and self._admits():
            job = self._waiting.popleft()
            again = job.admitted == -2
            amount = job.prompt + job.generated if again else job.fresh
            if again:
                self.recomputed += amount
            self.computed += amount
            fresh += amount
            job.admitted = self._step
            self._running[job] = None
            self._used += job.prompt + job.generated
            self._order += 1
            heapq.heappush(self._ends, (self._step + job.answer - job.generated, self._order, job, self._step))
            if not again:
                job.on_computed()
        self._left_over = len(self._waiting)
        self._first_s = self._decode_s + fresh * self._prefill_s
        self._plan()

    def _plan(self) -> None:
        """Set the timer to the end of the step at which something happens: an end, an overflow, room for who waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._running:
            return
        loop = asyncio.get_running_loop()
        while self._ends and not self._stands(self._ends[0]):
            heapq.heappop(self._ends)
        steps = max(1, self._ends[0][0] - self._step)
        room = self._allowed() - self._used
        steps = min(steps, max(1, room // len(self._running) + 1))
        if self._admits():
            passed = (loop.time() - self._ended_at - self._first_s) / self._decode_s
            steps = min(steps, 1 + max(0, -int(-passed // 1)))
        self._timer = loop.call_at(self._ended_at + self._first_s + (steps - 1) * self._decode_s, self._end, steps)

    def _stands(self, entry: tuple[int, int, Job, int]) -> bool:
        return entry[2] in self._running and entry[2].admitted == entry[3]

    def _end(self, steps: int) -> None:
        self._timer = None
        self._ended_at += self._first_s + (steps - 1) * self._decode_s
        self._step += steps
        self._used += steps * len(self._running)
        done = []
        while self._ends and (self._ends[0][0] <= self._step or not self._stands(self._ends[0])):
            entry = heapq.heappop(self._ends)
            if self._stands(entry):
                self._drop(entry[2])
                done.append(entry[2])
        while self._used > self._allowed() and len(self._running) > 1:
            newest = next(reversed(self._running))
            self._drop(newest)
            newest.generated += self._step - newest.admitted
            newest.admitted = -2
            self._waiting.appendleft(newest)
            self.preemptions += 1
        self._first_s = self._decode_s
        if self._running or self._waiting:
            self._begin()
        for job in done:
            job.on_done()


def batching_of(laws: Laws, scaled: Callable[[int], int]) -> Batching:
    """The batch that these laws describe; `scaled` gives a bound as it is now."""
    return Batching(
        decode_s=laws.decode_ms_per_token / 1000,
        prefill_s=laws.prefill_ms_per_token / 1000,
        allowed=lambda: scaled(laws.kv_tokens),
        seats=lambda: scaled(laws.slots),
    )
