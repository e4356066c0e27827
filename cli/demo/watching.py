"""Reads the output of the demo from its topics and compares it with the input."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from confluent_kafka import Consumer

from cli.demo.clocks import WrongClock
from cli.demo.trouble import Injected

RECENT: Final = 8
ROUNDING_NS: Final = 2
AT_ONCE: Final = 2_000
ORDERED: Final = "events.ordered"
RAW: Final = "events.raw"
GAPS: Final = "events.gaps"
DEAD: Final = "events.dead"


@dataclass(slots=True)
class DisplayLine:
    """An event as a line of the display; `time_ns` is the reported or the corrected timestamp."""

    source: str
    seq: int
    time_ns: int
    type: str
    late: str = ""


@dataclass
class Outcome:
    """Counts of the records that have been read."""

    raw: int = 0
    raw_descents: int = 0
    ordered: int = 0
    late: Counter[str] = field(default_factory=Counter)
    dead: int = 0
    missing: int = 0
    filled: int = 0
    """The number of events that were reported missing but emitted later, in order or late."""
    gaps: int = 0
    violations: int = 0
    outside: int = 0
    errors_ns: list[int] = field(default_factory=list)
    twice: int = 0
    arrivals: deque[DisplayLine] = field(default_factory=lambda: deque(maxlen=RECENT))
    departures: deque[DisplayLine] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def out(self) -> int:
        return self.ordered + sum(self.late.values())

    def usual_error_ns(self) -> int:
        """Return the median of the time errors that the events state."""
        return sorted(self.errors_ns)[len(self.errors_ns) // 2] if self.errors_ns else 0


class Watcher:
    """A reader of all topics of the demo, which counts the records in `outcome`."""

    def __init__(self, brokers: str, clocks: Mapping[str, WrongClock]) -> None:
        self.outcome = Outcome()
        self._clocks = clocks
        self._newest_raw_ns = 0
        self._last = (-1, "", -1)
        self._seen: set[tuple[str, int]] = set()
        self._missing: set[tuple[str, int]] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "demo-watcher",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([RAW, ORDERED, GAPS, DEAD])

    def read_available(self, timeout_s: float) -> int:
        """Read the available records, at most `AT_ONCE`, and return their number."""
        messages = self._consumer.consume(AT_ONCE, timeout_s)
        for message in messages:
            if message.error() is None:
                self._take(message)
        return len(messages)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Any) -> None:
        topic = message.topic()
        if topic == GAPS:
            gap = orjson.loads(message.value())
            self.outcome.gaps += 1
            missing = {(gap["source"], seq) for seq in range(gap["first"], gap["last"] + 1)}
            self._missing |= missing
            self.outcome.missing += len(missing)
            self.outcome.filled += len(missing & self._seen)
        elif topic == DEAD:
            self.outcome.dead += 1
        else:
            headers = dict(message.headers() or ())
            if topic == RAW:
                self._take_raw(headers)
            else:
                self._take_ordered(headers)

    def _take_raw(self, headers: dict[str, bytes]) -> None:
        true_ns = self._true_time_of(headers)
        self.outcome.raw += 1
        self.outcome.raw_descents += true_ns < self._newest_raw_ns
        self._newest_raw_ns = max(self._newest_raw_ns, true_ns)
        self.outcome.arrivals.append(_read_line(headers, "ts"))

    def _true_time_of(self, headers: dict[str, bytes]) -> int:
        return self._clocks[headers["sourceId"].decode()].true(int(headers["ts"]))

    def _take_ordered(self, headers: dict[str, bytes]) -> None:
        outcome = self.outcome
        if "kind" in headers:
            return  # This record is a watermark.
        seen = _read_line(headers, "refTs")
        error_ns = int(headers["err"])
        outcome.errors_ns.append(error_ns)
        outcome.outside += abs(seen.time_ns - self._true_time_of(headers)) > error_ns + ROUNDING_NS
        outcome.departures.append(seen)
        place = (seen.source, seen.seq)
        outcome.filled += place in self._missing and place not in self._seen
        outcome.twice += place in self._seen
        self._seen.add(place)
        if seen.late:
            outcome.late[seen.late] += 1
            return
        outcome.ordered += 1
        key = (seen.time_ns, seen.source, seen.seq)
        outcome.violations += key < self._last
        self._last = key


def _read_line(headers: dict[str, bytes], time: str) -> DisplayLine:
    return DisplayLine(
        headers["sourceId"].decode(),
        int(headers["seqNum"]),
        int(headers[time]),
        headers.get("type", b"").decode(),
        headers.get("late", b"").decode(),
    )


def duplicates_in(metrics: str) -> int:
    """Return the number of duplicates that the worker counted."""
    pattern = re.compile(r"^inorder_records_duplicate_total\{.*\} (\S+)", re.M)
    return round(sum(float(count) for count in pattern.findall(metrics)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison of output and input.

    `balanced` is true if every record that was published is accounted for. `notes` lists all
    faults.
    """

    balanced: bool
    rows: list[tuple[str, int, int]]
    notes: list[str]

    @property
    def is_sound(self) -> bool:
        return not self.notes

    @property
    def account(self) -> dict[str, Any]:
        """The result as an object for JSON."""
        rows = {what: {"injected": put, "found": found} for what, put, found in self.rows}
        return {"balanced": self.balanced, "rows": rows, "notes": self.notes}


def judge(injected: Injected, outcome: Outcome, duplicates: int, held: int) -> Verdict:
    """Compare the simulated faults with the output, and return the result with all differences."""
    accounted = outcome.out + duplicates + outcome.dead + held
    rows = [
        ("records published", injected.postings, outcome.raw),
        ("records accounted for", injected.postings, accounted),
        ("events in order or marked late", injected.sent - injected.lost, outcome.out),
        ("copies found", injected.copies, duplicates),
        ("numbers reported missing", injected.lost, outcome.missing - outcome.filled),
    ]
    notes = []
    if outcome.violations:
        notes.append(f"{outcome.violations} events out of order without a mark")
    if outcome.twice:
        notes.append(f"{outcome.twice} events were emitted twice")
    if outcome.outside:
        notes.append(f"the true time of {outcome.outside} events was outside the stated error")
    unequal = [f"{what}: {found}, not {wanted}" for what, wanted, found in rows if wanted != found]
    return Verdict(not unequal, rows, notes + unequal)
