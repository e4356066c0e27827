"""Worlds made from a seed, as lines for `inorder replay`.

Only the standard library is used, so that two trees get the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

MS = 1_000_000
START_NS = 1_700_000_000_000 * MS

Line = dict[str, Any]


@dataclass(frozen=True)
class World:
    """A world of machines and their behaviour.

    Shares are of events, and `*_ms` are bounds of a random time. `restarts` is the share of events
    before which a source restarts its numbers, without an epoch. Numbers are taken modulo
    `wraps_at`, if it is not 0. Clocks are wrong by up to `skew_ms`, with rounds of time sync that
    show it. `unnumbered` is the number of sources without sequence numbers. `values` are the values
    of `v`.
    """

    count: int = 400
    sources: int = 5
    streams: tuple[str, ...] = ("default",)
    step_ms: int = 40
    delay_ms: int = 30
    late: float = 0.08
    late_ms: int = 1_500
    lost: float = 0.03
    copied: float = 0.03
    bad: float = 0.01
    control: float = 0.02
    restarts: float = 0.0
    pauses: float = 0.01
    pause_ms: int = 6_000
    wraps_at: int = 0
    skew_ms: int = 0
    unnumbered: int = 0
    coarse_ms: int = 1
    has_arrivals: bool = True
    values: tuple[float, ...] = (*range(10), *(quarters / 4 for quarters in range(10)))

    def lines(self, rng: Random) -> list[Line]:
        """Return the lines in the order of arrival."""
        timed: list[tuple[int, Line]] = []
        numbers = dict.fromkeys(range(self.sources), rng.choice((0, 0, 7)))
        skews = [rng.randint(-self.skew_ms, self.skew_ms) for _ in range(self.sources)]
        now_ms = 0
        for _ in range(self.count):
            now_ms += rng.randint(0, self.step_ms)
            if rng.random() < self.pauses:
                now_ms += rng.randint(0, self.pause_ms)
            source = rng.randrange(self.sources)
            if rng.random() < self.restarts:
                numbers[source] = 0
            number, numbers[source] = numbers[source], numbers[source] + 1
            if rng.random() < self.lost:
                continue
            line = self._line(rng, source, number, now_ms + skews[source])
            way_ms = rng.randint(1, self.delay_ms)
            if rng.random() < self.late:
                way_ms += rng.randint(0, self.late_ms)
            timed.append((now_ms + way_ms, line))
            if rng.random() < self.copied:
                timed.append((now_ms + way_ms + rng.randint(0, self.late_ms), dict(line)))
            if self.skew_ms and rng.random() < 0.2:
                timed.append((now_ms, _round(rng, line["source"], now_ms, skews[source])))
        timed.sort(key=lambda each: each[0])
        return [self._arrived(rng, line, at_ms) for at_ms, line in timed]

    def _line(self, rng: Random, source: int, number: int, at_ms: int) -> Line:
        stream = self.streams[source % len(self.streams)]
        line: Line = {
            "source": f"m{source}",
            "seq": number % self.wraps_at if self.wraps_at else number,
            "ts": START_NS + at_ms // self.coarse_ms * self.coarse_ms * MS,
            "type": rng.choice("AABBCD"),
            "stream": stream,
            "payload": {
                "v": rng.choice(self.values),
                "k": rng.choice("xyz"),
                "n": number,
            },
        }
        if source < self.unnumbered:
            del line["seq"]
        if rng.random() < self.control and "seq" in line:
            del line["payload"], line["type"]
            line["kind"] = rng.choice(("heartbeat", "heartbeat", "bye"))
        if rng.random() < 0.05:
            line["payload"] = rng.choice((None, {"v": None, "k": "x"}, {"k": "y", "v": "text"}))
        return line

    def _arrived(self, rng: Random, line: Line, at_ms: int) -> Line:
        if "clock" in line:
            return line
        if rng.random() < self.bad:
            key = rng.choice(sorted(line))
            line = {**line, key: rng.choice((-1, "", 1.5, [1], None))}
        return {**line, "arrival": START_NS + at_ms * MS} if self.has_arrivals else line


def _round(rng: Random, source: str, now_ms: int, skew_ms: int) -> Line:
    """Return a round of time sync that ends now, for a clock that is ahead by `skew_ms`."""
    ways_ms = rng.randint(1, 8), rng.randint(1, 8)
    heard_ns = START_NS + (now_ms - ways_ms[1]) * MS
    sent_ns = START_NS + (now_ms - sum(ways_ms) + skew_ms) * MS
    ended_ns = START_NS + (now_ms + skew_ms) * MS
    return {"clock": source, "t1": sent_ns, "t2": heard_ns, "t3": heard_ns, "t4": ended_ns}
