"""Survey recorded events: streams and their units, types, and fields that hold numbers.

The survey is one pass over the rows, which are read as in a replay. It stores the rows of each
stream, for an audit's count of disorder, silences and clocks. Only the first `MAX_STREAMS` streams
are surveyed.

Memory: the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from agents.watch.deaths import Deaths
from inorder.contract import DEFAULT_STREAM, UNIT_NS
from recordings.audit.row import AuditRow
from recordings.plausible import SAMPLE, AsRead, Plausibility
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.records.checker import Reading, decode_field, digest_of_id
from topology.records.line_reader import LineReader, Row

MAX_STREAMS: Final = 100


@dataclass(slots=True)
class StreamSeen:
    """The survey of one stream.

    Attributes:
        rows: The rows of the stream.
        arrives: Whether each row has its arrival.
        types: The number of events of each type.
        numbers: The number of payloads in which each field is a number.
    """

    rows: list[AuditRow] = field(default_factory=list)
    arrives: bool = True
    types: Counter[str] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Survey:
    """The streams of a recording, and its lines that are no events.

    Attributes:
        units: The unit of each stream whose `ts` is not in nanoseconds.
    """

    lines: int = 0
    clock_lines: int = 0
    units: dict[str, str] = field(default_factory=dict)
    streams: dict[str, StreamSeen] = field(default_factory=dict)
    dead: Deaths = field(default_factory=Deaths)


def survey_rows(rows: Iterable[Row], now_ns: int, *, has_ids: bool = False) -> Survey:
    """Survey the rows in one pass.

    Args:
        rows: The rows.
        now_ns: The current time, to guess the unit of times.
        has_ids: Whether the `id` of a row without a number is that of its mapping, by which copies
            are found.
    """
    rows = iter(rows)
    first = list(islice(rows, SAMPLE))
    survey = Survey(units=_guess_units(first, now_ns))
    units_ns = {stream: UNIT_NS[unit] for stream, unit in survey.units.items()}
    # Rows without a number must be readable here; whether rows have numbers is recorded separately.
    reader = LineReader(Reading(units_ns=units_ns))
    for row in chain(first, rows):
        survey.lines += 1
        numbered = row.values.get("seq") is not None
        if not numbered and row.fault is None and row.values.get("clock") is None:
            row = row._replace(values={**row.values, "seq": row.number})
        content = reader.read(row)
        if isinstance(content, Event):
            if content.kind == DATA:
                arrives = row.values.get("arrival") is not None
                if has_ids and not numbered:
                    content.digest = _digest(content.source, row.values.get("id"))
                _take(survey, content, row.number, numbered=numbered, arrives=arrives)
        elif isinstance(content, Malformed):
            survey.dead.add(content)
        else:
            survey.clock_lines += 1
    return survey


def _digest(source: str, id_: object) -> int:
    """Return the digest of a row's id, or 0 if it has none."""
    text = decode_field("id", id_)
    return digest_of_id(source, text) if isinstance(text, str) and text else 0


def _guess_units(rows: list[Row], now_ns: int) -> dict[str, str]:
    plausibility = Plausibility(AsRead(Reading()), now_ns)
    reader = LineReader()
    for row in rows:
        if not row.ts_is_instant:
            plausibility.count_line(reader.read(row))
    return {stream or DEFAULT_STREAM: unit for stream, unit in plausibility.units().items()}


def _take(survey: Survey, event: Event, number: int, *, numbered: bool, arrives: bool) -> None:
    if event.stream not in survey.streams and len(survey.streams) >= MAX_STREAMS:
        return
    stream = survey.streams.setdefault(event.stream, StreamSeen())
    seq = event.seq if numbered else None
    epoch = None if event.epoch == NO_EPOCH else event.epoch
    at_ns = event.arrival_ns if arrives else None
    row = AuditRow(event.source, seq, epoch, event.ts_ns, at_ns, 0, number, event.digest)
    stream.rows.append(row)
    stream.arrives &= arrives
    if event.type in stream.types or len(stream.types) < MAX_STREAMS:
        stream.types[event.type] += 1
    for name in _find_number_fields(event.value):
        if name in stream.numbers or len(stream.numbers) < MAX_STREAMS:
            stream.numbers[name] += 1


def _find_number_fields(payload: Any) -> Iterator[str]:
    if isinstance(payload, dict):
        for name, value in payload.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(name)
