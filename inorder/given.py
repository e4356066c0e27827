"""Read topologies and inputs for a run in this process, and turn its outcomes into records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from inorder.records import ClockOffset, ClockSample, OrderedEvent, RawEvent, Record, record_of
from topology.config import Topology, parse_with
from topology.config import parse as parse_file
from topology.config.user_functions import given_functions
from topology.model.event import Event
from topology.model.outcome import Malformed, Report, Step
from topology.model.paths import Path
from topology.model.result import Finding
from topology.model.stamp_clock import Step as StampStep
from topology.window.aggregates.custom import Function
from topology.wire.field_reader import FieldReader
from topology.wire.json_lines import in_time, report_line, result_line
from topology.wire.line_reader import Content, LineReader, Row
from topology.wire.mapped_rows import Arrivals, MappedRows
from topology.wire.values import picking, walked
from topology.wire.where import parse_where

Input = RawEvent | ClockSample | ClockOffset | Mapping[str, Any]
"""An input of a replay; a mapping is interpreted like the same line of `inorder replay`.

If all streams with `fields` have the same, a mapping may also be a value, which they read:

* With `source` and `payload`, or with the name of a stream without `fields`, it is a line.
* Otherwise it is a value if it has the source where the `fields` say.
* Otherwise it is a line if it has `source` or `clock`.
* Otherwise its `payload` is the value, and it may have `arrival`. Without one it is the value.
"""

TYPES: Final = (RawEvent, ClockSample, ClockOffset)
INPUTS: Final = "RawEvent, ClockSample, ClockOffset, or mappings"


def parse(
    source: str | bytes | Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Function] | None = None,
    detectors: Mapping[str, Any] | None = None,
) -> Topology:
    """Return the topology that is described by YAML text, or by the mapping of such a text.

    Args:
        source: The text, or its mapping.
        functions: Your own functions of patterns and queries, by name. A file that the text names
            after `functions:` is for workers, and is not loaded here.
        aggregates: Your own aggregates, by name.
        detectors: Your own detectors, by name.

    Raises:
        TopologyError: The topology has faults. The message names all of them, with line and remedy.
        TypeError: `source` is neither text nor a mapping.
    """
    if not isinstance(source, str | bytes | Mapping):
        raise TypeError(f"{source!r} is not a topology; pass a Topology, or the text of a file")
    if functions is None and aggregates is None and detectors is None:
        return parse_file(source)
    return parse_with(source, given_functions(functions, aggregates, detectors))


def runnable(
    topology: Topology | str,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Function] | None = None,
    detectors: Mapping[str, Any] | None = None,
) -> Topology:
    """Return the topology, or the topology that the text describes, ready to run.

    Args:
        topology: A topology, or the text of its file.
        functions: Your own functions, by name. If any of the three kinds is given, the given ones
            replace all of the topology's own.
        aggregates: Your own aggregates, by name.
        detectors: Your own detectors, by name.

    Raises:
        TopologyError: The topology has faults, or names functions that are not given.
    """
    if not isinstance(topology, Topology):
        topology = parse(topology, functions, aggregates, detectors)
    elif functions is not None or aggregates is not None or detectors is not None:
        topology = topology.with_functions(functions, aggregates, detectors)
    topology.check_functions()
    return topology


def check_many(name: str, given: Any, of: str) -> None:
    """Raise TypeError if `given` is a single value, or cannot be iterated.

    Args:
        name: The argument's name, for the message.
        given: The argument's value.
        of: The kind of elements that the message asks for.
    """
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is of type {type(given).__name__}; pass a list of {of}")


class Reader:
    """A reader that numbers the inputs, and interprets each as the topology's streams require.

    It keeps the arrival clock from one input to the next.

    Args:
        topology: The topology whose streams define how to read an input.
    """

    def __init__(self, topology: Topology) -> None:
        """Prepare to read the first input."""
        self._lines = LineReader(topology.reading())
        self._values = _values_by_fields(topology)
        self.number = 0

    def saved(self) -> tuple[Any, ...]:
        """Return the number of the last input, and the state of the clock of timestamps."""
        stamps = self._lines.stamps
        return self.number, stamps.now_ns, None if stamps.doubted is None else (*stamps.doubted,)

    def restore(self, saved: tuple[Any, ...], arrival_ns: int | None) -> None:
        """Continue after the input whose state was saved.

        Args:
            saved: The state.
            arrival_ns: The arrival time of that input, in ns since 1970.
        """
        stamps = self._lines.stamps
        self._lines.arrival_ns = arrival_ns
        if self._values is not None:
            self._values.rows.arrivals.last_ns = arrival_ns
        self.number, stamps.now_ns, doubted = saved
        stamps.doubted = None if doubted is None else StampStep(*doubted)

    def contents(self, inputs: Iterable[Input]) -> Iterator[Content]:
        """Yield the content of each input.

        Args:
            inputs: The inputs, in the order of their arrival.

        Raises:
            TypeError: A value is not an input.
        """
        for row in self._lines.begun(map(self._row, inputs)):
            yield self._lines.read(row)

    def _row(self, each: Input, now_ns: int | None = None) -> Row:
        self.number += 1
        check_input(each, self.number)
        if isinstance(each, TYPES):
            return Row(self.number, each.line(), ts_is_instant=True)
        if self._values is not None and not isinstance(each, dict):
            each = {**each}
        value = None if self._values is None else self._values.value_of(each)
        if self._values is None or value is None:
            return Row(self.number, each)
        row = self._values.row(self.number, value, now_ns or self._lines.arrival_ns or 0)
        arrival = None if value is each or row.values.get("arrival") else each.get("arrival")
        return row if arrival is None else row._replace(values={**row.values, "arrival": arrival})

    def read(self, each: Input, now_ns: int | None = None) -> Content:
        """Return the content of the next input.

        Args:
            each: The input.
            now_ns: The current time. It is the arrival time of an input without one, and the
                earliest arrival time of any other. None: arrival times follow as in a replay.
        """
        row = self._row(each, now_ns)
        if now_ns is not None:
            own = row.values.get("arrival")
            if own is None or (type(own) is int and 0 <= own < now_ns):
                row = row._replace(values={**row.values, "arrival": now_ns})
        content = self._lines.read(row)
        if now_ns is not None and isinstance(content, Malformed) and content.at_ns < now_ns:
            # The arrival time of this input could not be read.
            return replace(content, at_ns=now_ns)
        return content


@dataclass(slots=True)
class _ValuesByFields:
    """A reader of records' values by the `fields` of the only stream that has some.

    Attributes:
        others: The names of the other streams.
        source: The path of the source in a value, or () if it is elsewhere.
        payload: The path of the part of a value that queries read.
        rows: The reader of the other fields.
    """

    others: frozenset[str]
    source: Path
    payload: Path
    rows: MappedRows

    def value_of(self, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the value in a mapping, or None if the mapping is a line."""
        inside = given.get("payload")
        is_line = given.get("source") is not None or given.get("clock") is not None
        if (is_line and inside is not None) or given.get("stream") in self.others:
            return None
        if self.source and walked(given, self.source) is not None:
            return given
        if is_line:
            return None
        return inside if isinstance(inside, Mapping) else given

    def row(self, number: int, value: Mapping[str, Any], near_ns: int) -> Row:
        row = self.rows.row(number, value, near_ns)
        if row.fault is not None:
            return row
        return row._replace(values={**row.values, "payload": walked(value, self.payload)})


def _values_by_fields(topology: Topology) -> _ValuesByFields | None:
    """Return the reader of values, or None if not all streams with `fields` have the same."""
    mapped = {name: each for name, each in topology.streams.items() if each.fields is not None}
    found = {(each.mapping(), each.fields.arrival) for each in mapped.values() if each.fields}
    if len(found) != 1:
        return None
    ((fields, arrival),) = found
    assert fields is not None
    place = None if arrival is None else parse_where(arrival, "arrival", on_file=True)
    pickings = partial(picking, _as_it_is)
    reading = topology.reading()
    if len(mapped) == 1:
        reading = reading._replace(unnamed=next(iter(mapped)))
    reader = FieldReader(fields, _as_it_is, pickings, reading=reading)
    arrivals = Arrivals(place, fields, pickings)
    source = fields.source.path if fields.source.place == "payload" else ()
    others = frozenset(topology.streams) - mapped.keys()
    return _ValuesByFields(others, source, fields.payload.path, MappedRows(reader, arrivals))


def _as_it_is(value: Any) -> Any:
    return value


def check_input(each: Any, number: int) -> None:
    """Raise TypeError if `each` is not an input."""
    if not isinstance(each, TYPES) and not isinstance(each, Mapping):
        wrong = f"input {number} is of type {type(each).__name__}"
        raise TypeError(f"{wrong}; pass {INPUTS}, one by one")


def records_of(step: Step) -> list[Record]:
    """Return the output of a step as records, in the order of their times."""
    return in_time(step, _reported, _ordered, _resulting)


def _ordered(event: Event) -> Record:
    """Return the same record as `record_of` would for the event's line."""
    return OrderedEvent(
        event.stream,
        event.source,
        max(event.epoch, 0),
        event.seq,
        event.ts_ns,
        event.ref_time_ns,
        event.error_ns,
        event.type,
        event.value,
        event.late,
        event.at_ns,
    )


def _reported(report: Report) -> Record:
    return record_of(report_line(report, replayed=True))


def _resulting(finding: Finding) -> Record:
    return record_of(result_line(finding))
