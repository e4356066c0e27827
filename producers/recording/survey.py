"""What recorded events look like: units, sources, disorder, silences, clocks.

One pass over the rows, as a replay would read them. It keeps for each stream how late numbers (or,
where most events have none, times) were, how long sources were silent, and how `ts` lies to
`arrival`. Memory: `MAX_SOURCES` sources of a stream are looked at, of each its last `MAX_HOLES`
open holes; of the others only that they are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from agents.watch.deaths import Deaths
from inorder.contract import DEFAULT_STREAM, UNIT_NS
from producers.recording.plausible import SAMPLE, Plausibility
from topology.model.event import DATA, Event
from topology.model.outcome import Malformed
from topology.wire.line_reader import Line, LineReader, Reading, Row

MAX_SOURCES: Final = 10_000
MAX_STREAMS: Final = 100
MAX_HOLES: Final = 10_000
MOST: Final = 0.5


@dataclass(slots=True)
class SourceSeen:
    """`ahead_ns`: the largest ts - arrival; a value above 0 is impossible for a right clock.
    `numbered`: its first event has a number. `holes`: the numbers that are missing, and when each
    was known to be."""

    arrival_ns: int
    first_ns: int
    highest: int
    newest_ns: int
    ahead_ns: int
    numbered: bool
    holes: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class StreamSeen:
    events: int = 0
    numbered: int = 0
    with_arrival: int = 0
    sources: dict[str, SourceSeen] = field(default_factory=dict)
    more_sources: bool = False
    overtaken: int = 0
    longest_fill_ns: int = 0
    behind_in_time: int = 0
    longest_behind_ns: int = 0
    longest_silence_ns: int = 0
    silent_source: str = ""
    types: Counter[str] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    """Fields of payloads that hold numbers."""

    @property
    def is_mixed(self) -> bool:
        """Some sources number their events, and some do not."""
        return {True, False} == {source.numbered for source in self.sources.values()}

    @property
    def by_time(self) -> bool:
        """Most events have no number."""
        return not self.is_mixed and self.numbered < MOST * self.events


@dataclass(slots=True)
class Survey:
    """`units`: of streams whose `ts` is not in nanoseconds."""

    lines: int = 0
    clock_lines: int = 0
    units: dict[str, str] = field(default_factory=dict)
    streams: dict[str, StreamSeen] = field(default_factory=dict)
    dead: Deaths = field(default_factory=Deaths)


def surveyed(rows: Iterable[Row], now_ns: int) -> Survey:
    """`now_ns`: today, for times that are ahead of it."""
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    survey = Survey(units=_units(first, now_ns))
    units_ns = {stream: UNIT_NS[unit] for stream, unit in survey.units.items()}
    # Whether a row has a number is looked at here: without one it is no dead line yet.
    reader = LineReader(Reading(units_ns=units_ns))
    for row in chain(first, rows):
        survey.lines += 1
        numbered = row.values.get("seq") is not None
        if not numbered and row.fault is None and row.values.get("clock") is None:
            row = row._replace(values={**row.values, "seq": row.number})
        content = reader.read(row)
        if isinstance(content, Event):
            if content.kind == DATA:
                _take(survey, content, row.values, numbered=numbered)
        elif isinstance(content, Malformed):
            survey.dead.add(content)
        else:
            survey.clock_lines += 1
    return survey


def _units(rows: list[Row], now_ns: int) -> dict[str, str]:
    plausibility = Plausibility(Reading(), now_ns)
    reader = LineReader()
    for row in rows:
        if not row.ts_is_instant:
            plausibility.look(Line(row.number, reader.read(row)))
    return {stream or DEFAULT_STREAM: unit for stream, unit in plausibility.units().items()}


def _take(survey: Survey, event: Event, values: Mapping[str, Any], *, numbered: bool) -> None:
    if event.stream not in survey.streams and len(survey.streams) >= MAX_STREAMS:
        return
    stream = survey.streams.setdefault(event.stream, StreamSeen())
    stream.events += 1
    stream.numbered += numbered
    stream.with_arrival += values.get("arrival") is not None
    if event.type in stream.types or len(stream.types) < MAX_STREAMS:
        stream.types[event.type] += 1
    for name in _numbers(event.value):
        if name in stream.numbers or len(stream.numbers) < MAX_STREAMS:
            stream.numbers[name] += 1
    source = stream.sources.get(event.source)
    if source is None:
        if len(stream.sources) >= MAX_SOURCES:
            stream.more_sources = True
            return
        at_ns = event.arrival_ns
        stream.sources[event.source] = SourceSeen(
            at_ns, at_ns, event.seq, event.ts_ns, event.ts_ns - at_ns, numbered
        )
        return
    _compare(stream, source, event, numbered=numbered)


def _numbers(payload: Any) -> Iterator[str]:
    if isinstance(payload, dict):
        for name, value in payload.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(name)


def _compare(stream: StreamSeen, source: SourceSeen, event: Event, *, numbered: bool) -> None:
    """With what has come of the source so far."""
    silence_ns = event.arrival_ns - source.arrival_ns
    if silence_ns > stream.longest_silence_ns:
        stream.longest_silence_ns, stream.silent_source = silence_ns, event.source
    source.arrival_ns = event.arrival_ns
    source.ahead_ns = max(source.ahead_ns, event.ts_ns - event.arrival_ns)
    if not (numbered and source.numbered):
        pass
    elif event.seq > source.highest:
        missing = range(max(source.highest + 1, event.seq - MAX_HOLES), event.seq)
        source.holes.update(dict.fromkeys(missing, event.arrival_ns))
        while len(source.holes) > MAX_HOLES:
            del source.holes[next(iter(source.holes))]
        source.highest = event.seq
    elif (known_ns := source.holes.pop(event.seq, None)) is not None:
        stream.overtaken += 1
        stream.longest_fill_ns = max(stream.longest_fill_ns, event.arrival_ns - known_ns)
    if event.ts_ns >= source.newest_ns:
        source.newest_ns = event.ts_ns
    else:
        stream.behind_in_time += 1
        behind_ns = source.newest_ns - event.ts_ns
        stream.longest_behind_ns = max(stream.longest_behind_ns, behind_ns)
