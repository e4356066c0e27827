"""Simulates faults on the way to Kafka, and counts them for comparison with the output.

- Every event is delayed by `Trouble.base_ns`.
- The share `delayed` has an additional exponential delay of at most `longest_ns`.
- The share `lost` never arrives.
- The share `doubled` is followed by a duplicate, which is delayed by the same distribution.

The random draws depend only on the seed. The first and last events of a source always arrive,
because no receiver could know that a number at either end is missing.

In the output, each of `Injected.lost` must be reported as missing, and each of `Injected.copies` as
a duplicate. Everything else must be emitted once, in order or marked late.
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
    """An event and the time at which it reaches the broker."""

    send_ns: int
    event: Recorded


@dataclass(slots=True)
class Trouble:
    """The faults to simulate: shares of all events, and delays."""

    delayed: float = 0.12
    lost: float = 0.005
    doubled: float = 0.01
    base_ns: int = 1 * MS
    mean_ns: int = 40 * MS
    longest_ns: int = 400 * MS


@dataclass(slots=True)
class Injected:
    """The counts of the simulated faults.

    `overtaken` counts events that first arrive after a larger number of their source.
    """

    sent: int = 0
    lost: int = 0
    copies: int = 0
    overtaken: int = 0

    @property
    def postings(self) -> int:
        """The number of records that reach the broker."""
        return self.sent - self.lost + self.copies


def add_trouble(
    events: Sequence[Recorded], seed: int, trouble: Trouble | None = None
) -> tuple[list[Posting], Injected]:
    """Return the records in their order at the broker, and the account of the simulated faults."""
    trouble = trouble or Trouble()
    rng = Random(seed)
    edges = _find_edges(events)
    injected = Injected(sent=len(events))
    postings: list[Posting] = []
    for event in events:
        chances = [rng.random() for _ in range(3)]
        delays_ns = [_draw_delay_ns(trouble, rng) for _ in range(2)]
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
    injected.overtaken = _count_overtaken(postings)
    return postings, injected


def _draw_delay_ns(trouble: Trouble, rng: Random) -> int:
    return min(trouble.longest_ns, int(-trouble.mean_ns * log(1.0 - rng.random())))


def _find_edges(events: Sequence[Recorded]) -> set[tuple[str, int]]:
    """Return the first and the last number of each source, as pairs of source and number."""
    numbers: dict[str, list[int]] = {}
    for event in events:
        numbers.setdefault(event.source, []).append(event.seq)
    return {(source, edge) for source, own in numbers.items() for edge in (min(own), max(own))}


def _count_overtaken(postings: list[Posting]) -> int:
    count = 0
    arrived: set[tuple[str, int]] = set()
    highest: dict[str, int] = {}
    for _, event in postings:
        largest = highest.get(event.source, event.seq)
        count += (event.source, event.seq) not in arrived and event.seq < largest
        arrived.add((event.source, event.seq))
        highest[event.source] = max(event.seq, largest)
    return count
