"""Read topologies and inputs for a run in this process, and turn its outcomes into records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeGuard

from inorder.records import (
    ClockOffset,
    ClockSample,
    OrderedEvent,
    RawEvent,
    Record,
    WindowRecord,
    record_of,
)
from topology.base.event import Event
from topology.base.outcome import Report, Step
from topology.base.result import Finding, WindowResult
from topology.config import Topology, parse_with
from topology.config import parse as parse_file
from topology.config.user_functions import make_user_functions
from topology.queries.window.aggregates.custom import Function
from topology.records.field_reader import FieldReader
from topology.records.input_reader import InputReader
from topology.records.json_lines import make_report_line, make_result_line, sort_outputs
from topology.records.line_reader import AT_ONCE, Content, LineContents, Row, split_rows
from topology.records.mapped_rows import Arrivals, MappedRows
from topology.records.values import picking
from topology.records.values_by_fields import ValuesByFields
from topology.records.where import parse_where

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
    return parse_with(source, make_user_functions(functions, aggregates, detectors))


def to_runnable(
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


def check_iterable(name: str, given: Any, of: str) -> None:
    """Raise TypeError if `given` is a single value, or cannot be iterated.

    Args:
        name: The argument's name, for the message.
        given: The argument's value.
        of: The kind of elements that the message asks for.
    """
    if type(given) is list:
        return
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is of type {type(given).__name__}; pass a list of {of}")


class Reader:
    """A reader of the inputs of a run, each as the topology's streams require.

    It keeps the arrival clock from one input to the next.

    Args:
        topology: The topology whose streams define how to read an input.
    """

    def __init__(self, topology: Topology) -> None:
        """Prepare to read the first input."""
        self._inputs = InputReader(topology.reading(), _make_value_reader(topology))

    @property
    def number(self) -> int:
        """The number of the last input."""
        return self._inputs.number

    def save(self) -> tuple[Any, ...]:
        """Return the number of the last input, and the state of the clock of timestamps."""
        return self._inputs.save()

    def restore(self, saved: tuple[Any, ...], arrival_ns: int | None) -> None:
        """Continue after the input whose state was saved.

        Args:
            saved: The state.
            arrival_ns: The arrival time of that input, in ns since 1970.
        """
        self._inputs.restore(saved, arrival_ns)

    def contents(self, inputs: Iterable[Input]) -> Iterator[Content]:
        """Yield the content of each input.

        Args:
            inputs: The inputs, in the order of their arrival.

        Raises:
            TypeError: A value is not an input.
        """
        lines = self._inputs.lines
        # The row of a value depends on the arrival of the row before it.
        most = 1 if self._inputs.reads_values else AT_ONCE
        for rows in split_rows(lines.begin(map(self._row, inputs)), most):
            yield from lines.read_many(rows)

    def _row(self, each: Input) -> Row:
        if isinstance(each, TYPES):
            return self._inputs.row(each.line(), is_instant=True)
        check_input(each, self.number + 1)
        return self._inputs.row(each)

    def read(self, each: Input, now_ns: int | None = None) -> Content:
        """Return the content of the next input.

        Args:
            each: The input.
            now_ns: The current time. It is the arrival time of an input without one, and the
                earliest arrival time of any other. None: arrival times follow as in a replay.
        """
        if isinstance(each, TYPES):
            return self._inputs.read(each.line(), is_instant=True, now_ns=now_ns)
        return self._inputs.read(each, now_ns=now_ns)

    def read_many(self, inputs: Sequence[Input], now_ns: int | None = None) -> LineContents:
        """Return the contents of the next inputs, as `read` would one after the other."""
        if are_dicts(inputs):
            return self._inputs.read_lines(inputs, now_ns)
        found = [self.read(each, now_ns) for each in inputs]
        return LineContents(found, found)

    def read_columns(
        self, names: Sequence[str], rows: Sequence[Sequence[Any]], now_ns: int | None = None
    ) -> LineContents:
        """Return the contents of the next inputs, each of which has these names by position."""
        return self._inputs.read_columns(names, rows, now_ns)


def _make_value_reader(topology: Topology) -> ValuesByFields | None:
    """Return the reader of values, or None if not all streams with `fields` have the same."""
    mapped = {name: each for name, each in topology.streams.items() if each.fields is not None}
    found = {(each.mapping(), each.fields.arrival) for each in mapped.values() if each.fields}
    if len(found) != 1:
        return None
    ((fields, arrival),) = found
    assert fields is not None
    place = None if arrival is None else parse_where(arrival, "arrival", on_file=True)
    pickings = partial(picking, _return_unchanged)
    reading = topology.reading()
    if len(mapped) == 1:
        reading = reading._replace(unnamed=next(iter(mapped)))
    reader = FieldReader(fields, _return_unchanged, pickings, reading=reading)
    arrivals = Arrivals(place, fields, pickings)
    source = fields.source.path if fields.source.place == "payload" else ()
    others = frozenset(topology.streams.keys() - mapped.keys())
    return ValuesByFields(others, source, fields.payload.path, MappedRows(reader, arrivals))


def _return_unchanged(value: Any) -> Any:
    return value


def are_dicts(inputs: Sequence[Input]) -> TypeGuard[Sequence[dict[str, Any]]]:
    """Return whether all inputs are dicts, and of no other class."""
    return {*map(type, inputs)} == {dict}


def check_input(each: Any, number: int) -> None:
    """Raise TypeError if `each` is not an input."""
    if not isinstance(each, TYPES) and not isinstance(each, Mapping):
        wrong = f"input {number} is of type {type(each).__name__}"
        raise TypeError(f"{wrong}; pass {INPUTS}, one by one")


def records_of(step: Step) -> list[Record]:
    """Return the output of a step as records, in the order of their times."""
    return sort_outputs(step, _report_record, _ordered_event, _finding_record)


def _ordered_event(event: Event) -> Record:
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


def _report_record(report: Report) -> Record:
    return record_of(make_report_line(report, replayed=True))


def _finding_record(finding: Finding) -> Record:
    """Return the record of the finding's line; that of a window is made without a line."""
    if type(finding) is not WindowResult:
        return record_of(make_result_line(finding))
    return WindowRecord(
        finding.id,
        finding.query,
        finding.op,
        finding.revision,
        finding.final,
        finding.confidence,
        finding.start_ns,
        finding.end_ns,
        finding.values,
        finding.key,
        finding.stream,
        finding.at_ns,
        finding.low,
        finding.high,
        finding.expected,
    )
