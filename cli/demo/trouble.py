"""Trouble on the way, with an account of it: delays that overtake, holes, copies.

Every event takes `Trouble.base_ns`; the share `delayed` takes an exponential delay on
top, at most `longest_ns`; `lost` never arrive; of `doubled` a copy follows, delayed by
the same law. What is drawn depends on the seed alone. A source's first and last event
always arrive: a number missing before the first or after the last is unknown to any
receiver, and the account would not come out.

So `Injected` can be held against what came out: each of `holes` must be reported as a
gap, each of `copies` as a duplicate, and everything else must come out once, in order
or marked late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from random import Random
from typing import Final, NamedTuple

from cli.demo.recording import Recorded

MS: Final = 1_000_000


class Posting(NamedTuple):
    """`event` reaches the broker at `send_ns`."""

    send_ns: int
    event: Recorded


@dataclass(slots=True)
class Trouble:
    """Shares of all events, and times."""

    delayed: float = 0.12
    lost: float = 0.005
    doubled: float = 0.01
    base_ns: int = 1 * MS
    mean_ns: int = 40 * MS
    longest_ns: int = 400 * MS


@dataclass(slots=True)
class SourceAccount:
    """What becomes of one source. `overtaken`: first arrivals below the largest number that had
    arrived. `holes`: maximal runs (first, last) of numbers that never arrive; a
    receiver may report a run in pieces where it was wider for a while."""

    sent: int = 0
    delayed: int = 0
    overtaken: int = 0
    copies: int = 0
    lost: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Injected:
    """`postings` counts the records that reach the broker: sent - lost + copies."""

    postings: int = 0
    sources: dict[str, SourceAccount] = field(default_factory=dict)

    @property
    def total(self) -> SourceAccount:
        """All sources together; `holes` in the order of the sources."""
        accounts = self.sources.values()
        return SourceAccount(
            sent=sum(account.sent for account in accounts),
            delayed=sum(account.delayed for account in accounts),
            overtaken=sum(account.overtaken for account in accounts),
            copies=sum(account.copies for account in accounts),
            lost=sum(account.lost for account in accounts),
            holes=[hole for account in accounts for hole in account.holes],
        )


def with_trouble(
    events: Iterable[Recorded], seed: int, trouble: Trouble | None = None
) -> tuple[list[Posting], Injected]:
    """What reaches the broker, in that order, and what was done to it."""
    trouble = trouble or Trouble()
    rng = Random(seed)
    events = list(events)
    edges = _edges(events)
    injected = Injected()
    postings: list[Posting] = []
    for event in events:
        account = injected.sources.setdefault(event.source, SourceAccount())
        account.sent += 1
        chances = [rng.random() for _ in range(3)]
        delays_ns = [_exponential(trouble, rng) for _ in range(2)]
        if chances[0] < trouble.lost and event.seq not in edges[event.source]:
            account.lost += 1
            continue
        slow = chances[1] < trouble.delayed
        account.delayed += slow
        send_ns = event.ts_ns + trouble.base_ns + (delays_ns[0] if slow else 0)
        postings.append(Posting(send_ns, event))
        if chances[2] < trouble.doubled:
            account.copies += 1
            postings.append(Posting(send_ns + delays_ns[1], event))
    postings.sort(key=lambda posting: posting.send_ns)
    injected.postings = len(postings)
    _account_for_arrivals(postings, injected)
    return postings, injected


def _exponential(trouble: Trouble, rng: Random) -> int:
    return min(trouble.longest_ns, int(-trouble.mean_ns * log(1.0 - rng.random())))


def _edges(events: list[Recorded]) -> dict[str, tuple[int, int]]:
    edges: dict[str, tuple[int, int]] = {}
    for event in events:
        low, high = edges.get(event.source, (event.seq, event.seq))
        edges[event.source] = (min(low, event.seq), max(high, event.seq))
    return edges


def _account_for_arrivals(postings: list[Posting], injected: Injected) -> None:
    arrived: dict[str, set[int]] = {source: set() for source in injected.sources}
    highest: dict[str, int] = {}
    for _, event in postings:
        seen = arrived[event.source]
        if event.seq not in seen and event.seq < highest.get(event.source, event.seq):
            injected.sources[event.source].overtaken += 1
        seen.add(event.seq)
        highest[event.source] = max(event.seq, highest.get(event.source, event.seq))
    for source, account in injected.sources.items():
        numbers = sorted(arrived[source])
        account.holes = [
            (below + 1, above - 1) for below, above in pairwise(numbers) if above > below + 1
        ]
