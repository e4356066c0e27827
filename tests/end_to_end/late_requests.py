"""Hold up requests of a worker's producers, and deliver the old bytes to the broker later.

An aimed hold of an EndTxn cuts its connection. The producer continues, under its old epoch or a new
one. One half of its next transaction (outputs or changelog) then enters the log while the other
half waits. Meanwhile the old bytes are delivered. If they end the transaction, it is torn.

Other requests, and some EndTxn, are delivered at any moment within `AT_ANY_TIME_S`. Some requests
lose only their answer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.end_to_end.way_to_brokers import Fate, Judge, Kept, Request, until

AIMED = "aimed"
ANY_TIME = "at any time"
ANSWER = "answer lost"
STAYS = "connection stays"

Plan = tuple[str, str]
"""A request, and its fate."""

AT_ANY_TIME_S = 0.4
GOES_ON_S = 60.0
HALF_S = 1.5
"""Time for one half of a transaction to reach the log."""


@dataclass
class _Trouble:
    """A disturbance of one producer.

    `goes_on` is set once the producer has had an answer. `half` is true if the half that waits is
    the changelog's.
    """

    api: str
    half: bool
    goes_on: bool = False
    is_aiming: bool = False
    half_there: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Holds(Judge):
    """A judge that holds one request of each producer at a time, in the order of `plans`, at most
    `most` in all.

    `codes` counts the answers to late requests.
    """

    def __init__(
        self, plans: Sequence[Plan], most: int, *, seed: int, gap_s: float, two: bool
    ) -> None:
        self._plans = plans
        self._random = Random(seed)
        self._gap_s = gap_s
        self._two = two
        self._troubles: dict[str, _Trouble] = {}
        self._next_s = 0.0
        self._most = most
        self._begun = threading.Event()
        self._led_at = -1
        self.count = 0
        self.codes: Counter[tuple[str, str, str]] = Counter()

    def begin(self) -> None:
        self._begun.set()

    @property
    def is_done(self) -> bool:
        return self.count >= self._most and not self._troubles

    def __str__(self) -> str:
        lines = [
            f"  {api}, {how}: {count} answered {code}"
            for (api, how, code), count in sorted(self.codes.items())
        ]
        return "\n".join([f"{self.count} holds", *lines])

    # -- judging -----------------------------------------------------------------------------------

    async def fate(self, request: Request) -> Fate:
        trouble = self._troubles.get(request.producer)
        if trouble is not None:
            is_aimed_at = trouble.is_aiming and request.api == "Produce"
            if is_aimed_at and request.is_of_changelog == trouble.half:
                await asyncio.wait_for(trouble.over.wait(), 2 * HALF_S)
            return Fate.PASS
        api, how = self._plans[self.count % len(self._plans)]
        if not self._is_due():
            return Fate.PASS
        if request.api != api:
            return self._led_to(api, request)
        self.count += 1
        self._next_s = time.monotonic() + self._gap_s * self._random.uniform(1, 2)
        if how == ANSWER:
            self.codes[api, how, "-"] += 1
            return Fate.UNANSWERED
        half = not self._two or self._random.random() < 0.5
        self._troubles[request.producer] = _Trouble(api, half)
        return Fate.KEPT if how == STAYS else Fate.CUT

    def _led_to(self, api: str, request: Request) -> Fate:
        """Leave one EndTxn unanswered, so that a new producer starts after the failure."""
        if (api, request.api) == ("InitProducerId", "EndTxn") and self._led_at < self.count:
            self._led_at = self.count
            self.codes["EndTxn", ANSWER, "-"] += 1
            return Fate.UNANSWERED
        return Fate.PASS

    def _is_due(self) -> bool:
        is_due = time.monotonic() >= self._next_s
        return self._begun.is_set() and self.count < self._most and is_due

    def answered(self, request: Request, codes: str) -> None:
        trouble = self._troubles.get(request.producer)
        if trouble is None:
            return
        if request.api in (trouble.api, "InitProducerId"):
            trouble.goes_on |= codes == "0"
        if trouble.is_aiming and request.api == "Produce":
            trouble.half_there |= request.is_of_changelog != trouble.half

    async def kept(self, kept: Kept) -> None:
        request = kept.request
        trouble = self._troubles[request.producer]
        how = self._plans[(self.count - 1) % len(self._plans)][1]
        await until(lambda: trouble.goes_on, GOES_ON_S)
        if how == ANY_TIME:
            await asyncio.sleep(self._random.random() * AT_ANY_TIME_S)
        else:
            trouble.is_aiming = True
            await until(lambda: trouble.half_there, HALF_S)
        self.codes[request.api, how, await kept.deliver()] += 1
        trouble.over.set()
        del self._troubles[request.producer]
