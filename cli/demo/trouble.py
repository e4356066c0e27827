"""Trouble on the way, with an account of it: delays that overtake, holes, copies.

Every event takes `Trouble.base_ns`; the share `delayed` takes an exponential delay on
top, at most `longest_ns`; `lost` never arrive; of `doubled` a copy follows, delayed by
the same law. What is drawn depends on the seed alone. A source's first and last event
always arrive: a number missing before the first or after the last is unknown to any
receiver, and the account would not come out.

So `Injected` can be held against what came out: each that is `lost` must be reported as
missing, each of `copies` as a duplicate, and everything else must come out once, in order
or marked late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
class Injected:
    """What became of all events. `overtaken`: first arrivals below the largest number of their
    source that had arrived."""

    sent: int = 0
    lost: int = 0
    copies: int = 0
    overtaken: int = 0

    @property
    def postings(self) -> int:
        """The records that reach the broker."""
        return self.sent - self.lost + self.copies


def with_trouble(
    events: Sequence[Recorded], seed: int, trouble: Trouble | None = None
) -> tuple[list[Posting], Injected]:
    """What reaches the broker, in that order, and what was done to it."""
    trouble = trouble or Trouble()
    rng = Random(seed)
    edges = _edges(events)
    injected = Injected(sent=len(events))
    postings: list[Posting] = []
    for event in events:
        chances = [rng.random() for _ in range(3)]
        delays_ns = [_exponential(trouble, rng) for _ in range(2)]
        if chances[0] < trouble.lost and (event.source, event.seq) not in edges:
            injected.lost += 1
            continue
        delay_ns = delays_ns[0] if chances[1] < trouble.delayed else 0
        send_ns = event.ts_ns + trouble.base_ns + delay_ns
        postings.append(Posting(send_ns, event))
        if chances[2] < trouble.doubled:
            injected.copies += 1
            postings.append(Posting(send_ns + delays_ns[1], event))
    postings.sort(key=lambda posting: posting.send_ns)
    injected.overtaken = _overtaken(postings)
    return postings, injected


def _exponential(trouble: Trouble, rng: Random) -> int:
    return min(trouble.longest_ns, int(-trouble.mean_ns * log(1.0 - rng.random())))


def _edges(events: Sequence[Recorded]) -> set[tuple[str, int]]:
    """Return the first and the last number of each source."""
    numbers: dict[str, list[int]] = {}
    for event in events:
        numbers.setdefault(event.source, []).append(event.seq)
    return {(source, edge) for source, own in numbers.items() for edge in (min(own), max(own))}


def _overtaken(postings: list[Posting]) -> int:
    count = 0
    arrived: set[tuple[str, int]] = set()
    highest: dict[str, int] = {}
    for _, event in postings:
        largest = highest.get(event.source, event.seq)
        count += (event.source, event.seq) not in arrived and event.seq < largest
        arrived.add((event.source, event.seq))
        highest[event.source] = max(event.seq, largest)
    return count
