"""Reads the recorded events, and moves them to the present at a higher speed.

The recording spans four and a half hours (`ORIGIN.md`). `retime` moves its first event to
`start_ns` and divides the time between events by `speed`. If all brokers are silent at once, the
silence is shortened to at most `LONGEST_SILENCE_NS`. Order and ties stay the same.

Thirteen lines of broker 0 have a time up to 60 ms below that of the preceding line. `retime` raises
such a time to that of the preceding line, as if each broker had one clock. By default, playing all
events takes 46.5 s, and single brokers are silent for up to 11 s.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

PATH: Final = Path(__file__).with_name("state_changes.csv.gz")
MS: Final = 1_000_000
LONGEST_SILENCE_NS: Final = 2_500 * MS


class Recorded(NamedTuple):
    """An event as its source sent it; `payload` has the other columns of the recorded line."""

    source: str
    seq: int
    ts_ns: int
    type: str
    payload: dict[str, str]


def record() -> list[Recorded]:
    """Return all events, sorted by (time, source, seq)."""
    with gzip.open(PATH, "rt", encoding="utf-8", newline="") as lines:
        events = [_to_event(fields) for fields in csv.DictReader(lines)]
    return sorted(events, key=lambda event: (event.ts_ns, event.source, event.seq))


def retime(events: Iterable[Recorded], start_ns: int, speed: float = 4.0) -> list[Recorded]:
    """Return `events` on a time axis that begins at `start_ns`, sorted by (time, source, seq)."""
    events = list(events)
    axis = _map_times(sorted({event.ts_ns for event in events}), start_ns, speed)
    newest_ns: dict[str, int] = {}
    result: list[Recorded] = []
    for event in sorted(events, key=lambda event: (event.source, event.seq)):
        ts_ns = max(axis[event.ts_ns], newest_ns.get(event.source, start_ns))
        newest_ns[event.source] = ts_ns
        result.append(event._replace(ts_ns=ts_ns))
    return sorted(result, key=lambda event: (event.ts_ns, event.source, event.seq))


def _map_times(times_ns: list[int], start_ns: int, speed: float) -> dict[int, int]:
    """Return a mapping from each recorded time to the time at which it is played."""
    axis = dict.fromkeys(times_ns[:1], start_ns)
    for before_ns, time_ns in pairwise(times_ns):
        axis[time_ns] = axis[before_ns] + min(
            LONGEST_SILENCE_NS, int((time_ns - before_ns) / speed)
        )
    return axis


def _to_event(fields: dict[str, str]) -> Recorded:
    ts_ns, seq = int(fields.pop("ts_ms")) * MS, int(fields.pop("seq"))
    payload = {name: text for name, text in fields.items() if text and name not in _SAID}
    return Recorded(fields["source"], seq, ts_ns, fields["kind"], payload)


_SAID: Final = ("source", "kind")
"""The columns that become fields of the event and are left out of its payload."""
