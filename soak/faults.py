"""Faults of the engine that lives must notice, each within 500 seeds. `python -m soak --mutants` tries them all."""

from __future__ import annotations

from soak.mutations import Mutation

ENGINE = (
    Mutation(
        "others go before the first request to an endpoint has been answered",
        "headrace.policy.canary",
        "return now >= (self.opens_at if in_flight else self._looks_until)",
        "return now >= self._looks_until",
    ),
    Mutation(
        "the answer to the first request is thrown away, and paid for again",
        "headrace.engine.live",
        "        if isinstance(settled, Outcome):\n            self.committer.batch.outcomes.append(settled)\n",
        "        if isinstance(settled, Outcome) and is_first:\n            self.feed.retry_at(sending.ended, work)\n"
        "        elif isinstance(settled, Outcome):\n            self.committer.batch.outcomes.append(settled)\n",
    ),
    Mutation(
        "a unit counts as leased before its lease is durable",
        "headrace.engine.feed",
        "            leasing.append(Work(unit))\n",
        "            self._ready.append(Work(unit))\n",
    ),
    Mutation(
        "a lease is dropped on resume",
        "headrace.testing.memory_ledger",
        "sorted(seq for seq, state in self.states.items() if state is State.LEASED):",
        "sorted(seq for seq, state in self.states.items() if state is State.LEASED)[1:]:",
    ),
    Mutation(
        "a retry goes out beyond the window",
        "headrace.engine.lane",
        "if in_flight >= self.window.limit or not",
        "if in_flight > self.window.limit or not",
    ),
    Mutation(
        "a breaker never closes",
        "headrace.engine.lane",
        "        if not self.breaker.is_quiet:\n            self._alive(now)\n",
        "",
    ),
    Mutation(
        "a unit is sent again although it was done",
        "headrace.engine.settling",
        "unit=work.seq, state=State.DONE, attempt=attempt, answer=answer,",
        "unit=work.seq, state=State.PENDING if work.seq % 7 == 3 else State.DONE, attempt=attempt, answer=answer,",
    ),
    Mutation(
        "the attempts of a unit are not counted",
        "headrace.engine.settling",
        "work.spent += verdict.counts",
        "work.spent += 0",
    ),
    Mutation(
        "what may have been billed is sent again against the job's word",
        "headrace.policy.verdict",
        "if failure.sent is Sent.MAYBE and not standing.retry_ambiguous:",
        "if failure.sent is Sent.MAYBE and standing.retry_ambiguous is None:",
    ),
    Mutation(
        "what a stop leaves in flight is not recorded",
        "headrace.engine.live",
        "            self._record_unanswered(self._settler.cut(work, lane, started_at, seconds))\n",
        "",
    ),
    Mutation(
        "leases that were not used are not given back at a stop",
        "headrace.engine.live",
        "self.committer.batch.released.extend(self.feed.stop(now + (reading_s or self.knobs.finish_reading_s)))",
        "self.feed.stop(now + (reading_s or self.knobs.finish_reading_s))",
    ),
    Mutation(
        "a failed unit has no reason",
        "headrace.engine.settling",
        'error = f"{verdict.kind}: {failure.message}"',
        "error = None",
    ),
    Mutation(
        "outcomes wait for the next outcome instead of the clock",
        "headrace.engine.committer",
        "self._timer = asyncio.get_running_loop().call_later(COMMIT_EVERY_S, self._due.set)",
        "self._timer = asyncio.get_running_loop().call_later(100 * COMMIT_EVERY_S, self._due.set)",
    ),
    Mutation(
        "a re-ask goes out under the key of the first ask, and counts as it",
        "headrace.engine.work",
        "        self.ask += 1\n",
        "",
    ),
    Mutation(
        "a retry that waits is forgotten when its attempt is durable",
        "headrace.engine.feed",
        "            heapq.heappush(self._waiting, (due, self._order, work))\n",
        "            heapq.heappush(self._waiting, (due, self._order, work)) if self._order % 5 else None\n",
    ),
    Mutation(
        "a reservation is given back, and what the request has taken is not booked",
        "headrace.policy.budget",
        "            budget.settle(amounts, (cost or 0.0, usage.prompt + answered(usage), 1.0))\n",
        "            self.give_back(amounts)\n",
    ),
    Mutation(
        "what a dead process left open counts for less than it may have taken",
        "headrace.engine.bounds",
        "        return max(prompts), max(answers)\n",
        "        return max(prompts) // 8, 0\n",
    ),
    Mutation(
        "what may have been billed counts nothing against the budget",
        "headrace.policy.budget",
        "            budget.settle(amounts, amounts)\n",
        "            self.give_back(amounts)\n",
    ),
    Mutation(
        "what is in flight counts nothing against the budget",
        "headrace.policy.budget",
        "self.spent[place] + self.reserved[place] + amounts[place]",
        "self.spent[place] + amounts[place]",
    ),
    Mutation(
        "what a dead process had in flight counts nothing against the budget",
        "headrace.testing.memory_ledger",
        "        for attempt in self.attempts:\n            if attempt.origin is Origin.REUSED",
        "        for attempt in self.attempts:\n            if attempt.origin is not Origin.SENT",
    ),
    Mutation(
        "a limit is that of each process, not of the run",
        "headrace.engine.live",
        "self.budget = knobs.budget(parts.endpoints, start.spent)\n",
        "self.budget = knobs.budget(parts.endpoints, type(start.spent)())\n",
    ),
    Mutation(
        "a limit stops a run while what is in flight may still give room",
        "headrace.engine.live",
        "if self.budget is not None and not self.budget.in_flight:",
        "if self.budget is not None:",
    ),
    Mutation(
        "a run that was stopped ends as if it were finished",
        "headrace.engine.live",
        "self._ending = Ending(reason, message, exit_code)",
        "self._ending = Ending(reason, message, 0)",
    ),
    Mutation(
        "what a crash leaves of joins waits for ever",
        "headrace.engine.made",
        "        self._numbers = deque(pending)\n",
        "        self._numbers: deque[int] = deque()\n",
    ),
    Mutation(
        "answers are joined while one of them is still to come",
        "headrace.testing.memory_ledger",
        "if any(self.states[seq] is not State.DONE for seq in below):",
        "if any(self.states[seq] is not State.DONE for seq in below[1:]):",
    ),
)
