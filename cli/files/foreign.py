"""Records and files of others for `inorder init`: a mapping is proposed from what is seen, by which
they become the rows that a recording of our own would have.

What was taken is shown, how surely, and three records as they would be read. Where two fields fit
alike a terminal is asked; without one the likelier is taken.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from cli.mapping_options import FIELD_OPTIONS, NOTHING_GIVEN, MappingOptions, values_at
from cli.topology_file import Refused
from inorder import rfc3339
from inorder.contract import DEFAULT_STREAM, TimeUnit
from producers.recording.encoded import FileEncoding
from producers.recording.guess import Guess, Proposal, guessed, spelled, unit_of
from producers.recording.values import FileMapping, ValueRow, decode_row, mapped_rows, value_rows
from topology.fields.mapping import Fields
from topology.fields.payload import as_json
from topology.fields.values import Decode, ValueFault, walked
from topology.fields.where import parse_where
from topology.wire.field_reader import FieldReader, MappedFields
from topology.wire.line_reader import LineFault, Reading, Row

NS_PER_MS: Final = 1_000_000
SAMPLE: Final = 5_000
SHOWN: Final = 3
FIELDS: Final = ("source", "seq", "ts", "type", "epoch")
WITHOUT_ZONE: Final = "UTC"
"""The zone of times that name none: a guess, and said to be one."""

OWN: Final = frozenset(
    {"source", "seq", "ts", "arrival", "stream", "epoch", "type", "payload", "kind", "offset"}
)
"""Keys of a line of our own form."""

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Taken:
    """A mapping, and by field what is said about it. `ts_unit`: None where times bear it."""

    fields: Fields
    ts_unit: TimeUnit | None
    said: dict[str, str]

    def section(self) -> dict[str, Any]:
        """`fields` and what belongs to it, as a stream of the topology file has them."""
        named = {name: getattr(self.fields, name) for name in FIELD_OPTIONS}
        places = {name: str(where) for name, where in named.items() if where is not None}
        found: dict[str, Any] = {"fields": places}
        if self.ts_unit is not None:
            found["ts_unit"] = self.ts_unit
        return found | ({"ts_zone": self.fields.ts_zone} if self.fields.ts_zone else {})


def taken(
    rows: Rows, otherwise: str, options: MappingOptions = NOTHING_GIVEN, *, on_file: bool = False
) -> Taken:
    """The mapping of decoded records: what the options name, and a proposal for the rest.
    `otherwise`: the source where nothing names one, as a constant. A terminal is asked where fields
    fit alike."""
    now_ns = time.time_ns()
    proposal = guessed(rows, now_ns)
    places = options.places(on_file=on_file)
    said = dict.fromkeys(places, "given")
    for name in FIELDS:
        guess: Guess | None = getattr(proposal, name)
        # A number counts within a source: beside one that is given, it is taken if it is sure.
        unsure = name == "seq" and "source" in said and guess is not None and guess.sure == "unsure"
        if name not in said and guess is not None and not unsure:
            guess = _asked(name, guess, on_file=on_file)
            places[name] = parse_where(spelled(guess.path, on_file=on_file), on_file=on_file)
            said[name] = _words(guess, on_file=on_file)
    if "source" not in places:
        places["source"] = parse_where(f'="{otherwise}"')
        said["source"] = "unsure: no field tells machines apart, so all is of one"
    if "seq" not in places:
        said["seq"] = "nothing rises by one within a source, so each is ordered by its time"
    if "ts" not in places:
        if on_file:
            raise Refused(f"no field looks like a time{_names(rows)}; name it by --ts")
        said["ts"] = "likely: no field looks like a time, so it is the record's own"
    unit = proposal.ts_unit
    if options.ts is not None:
        unit = unit_of(values_at(places["ts"], rows, on_file=on_file), now_ns)
    unit = options.ts_unit or unit
    fields = Fields(**places, ts_unit=unit or "ns", ts_zone=options.ts_zone)
    return Taken(_zoned(fields, proposal), unit, said)


def _zoned(fields: Fields, proposal: Proposal) -> Fields:
    guesses = proposal.without_zone and not fields.ts_zone
    return replace(fields, ts_zone=WITHOUT_ZONE) if guesses else fields


def _asked(name: str, guess: Guess, *, on_file: bool) -> Guess:
    """The guess, or the rival that somebody at a terminal chooses."""
    if not guess.rivals or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return guess
    spellings = {spelled(path, on_file=on_file): path for path in (guess.path, *guess.rivals)}
    first = next(iter(spellings))
    words = f"{name}: several fields fit alike; which is it?"
    word = click.prompt(words, type=click.Choice(list(spellings)), default=first, err=True)
    return guess._replace(path=spellings[word], sure="sure", why="chosen", rivals=())


def _words(guess: Guess, *, on_file: bool) -> str:
    rivals = ", ".join(spelled(path, on_file=on_file) for path in guess.rivals)
    return f"{guess.sure}: {guess.why}" + (f"; as well: {rivals}" if rivals else "")


def _names(rows: Rows) -> str:
    names = ", ".join(list(rows[0])[:12]) if rows else ""
    return f" (there are {names})" if names else ""


def told(mapping: Taken, rows: Iterable[Row]) -> None:
    """What was taken, and the first rows as they would be read, to standard error."""
    section = mapping.section()["fields"]
    for name in FIELD_OPTIONS:
        if name in mapping.said:
            place = section.get(name, "none")
            click.echo(f"{name + ':':7} {place}  ({mapping.said[name]})", err=True)
    if mapping.fields.ts_zone:
        click.echo(f"ts_zone: {mapping.fields.ts_zone}  (unsure: the times name none)", err=True)
    for row in rows:
        click.echo(f"  {_shown(row)}", err=True)


def _shown(row: Row) -> str:
    if row.fault is not None:
        return f"dead: {row.fault.detail}"
    values = row.values
    number = "no number" if values.get("seq") is None else f"number {values['seq']}"
    ts_ns = values.get("ts")
    at = "no time" if ts_ns is None else rfc3339.spelled(ts_ns)
    type_ = f"  type {values['type']}" if values.get("type") else ""
    return f"source {values.get('source')}  {number}  {at}{type_}"


# -- a file ----------------------------------------------------------------------------------------


def is_foreign(path: str, encoding: FileEncoding | None = None) -> bool:
    """Whether a file's rows are not lines of our own form, whose `ts` is no date."""
    if encoding is not None:
        return True
    for row in _first(path):
        value = _decoded(row)
        if not isinstance(value, Mapping) or "clock" in value:
            continue
        ts = value.get("ts", 0)
        is_ours = value.keys() <= OWN or value.keys() >= {"source", "ts"}
        return not is_ours or (isinstance(ts, str) and _DATE.match(ts) is not None)
    return False


def file_rows(
    path: str, options: MappingOptions, encoding: FileEncoding | None
) -> tuple[Taken, Iterator[Row]]:
    """What is taken of a file, and its rows by that."""
    values = [value for row in _first(path, encoding) if isinstance(value := _decoded(row), dict)]
    mapping = taken(values, "machine", options, on_file=True)
    any_seq = frozenset((DEFAULT_STREAM,))  # Whether a row has a number is the survey's matter.
    reading = Reading(mixed=any_seq) if mapping.fields.seq is not None else Reading(any_seq)
    by = FileMapping(mapping.fields, options.arrives(), encoding)
    return mapping, mapped_rows(path, by, reading)


def _first(path: str, encoding: FileEncoding | None = None) -> Iterator[ValueRow]:
    for count, row in enumerate(value_rows(path, encoding=encoding)):
        if count >= SAMPLE:
            return
        if row.fault is None:
            yield row


def _decoded(row: ValueRow) -> object:
    try:
        return decode_row(row.value)
    except ValueFault:
        return None


# -- a topic ---------------------------------------------------------------------------------------


def topic_rows(
    messages: Sequence[Any],
    topic: str,
    decode: Decode,
    options: MappingOptions = NOTHING_GIVEN,
) -> tuple[Taken, list[Row], list[LineFault]]:
    """What is taken of a topic's records, its rows by that in the order of their arrival, and why
    values could not be read. A record arrives when the latest of its partition before it did."""
    arrived_ms: dict[int, int] = {}
    arrivals = []
    for message in messages:
        arrival_ms = max(arrived_ms.get(message.partition, 0), message.timestamp)
        arrived_ms[message.partition] = arrival_ms
        arrivals.append((arrival_ms, message))
    arrivals.sort(key=lambda each: each[0])
    faults: list[LineFault] = []
    sample = [_sample(each, decode, faults) for _, each in arrivals[:SAMPLE]]
    mapping = taken(sample, topic, options)
    any_seq = (DEFAULT_STREAM,)
    by_time, mixed = ((), any_seq) if mapping.fields.seq is not None else (any_seq, ())
    reader = FieldReader(mapping.fields, decode, by_time=by_time, mixed=mixed, topic=topic)
    rows = [
        _row(number, message, reader, decode, arrival_ms * NS_PER_MS)
        for number, (arrival_ms, message) in enumerate(arrivals, 1)
    ]
    return mapping, rows, faults


def _sample(message: Any, decode: Decode, faults: list[LineFault]) -> dict[str, object]:
    headers = {name: (each or b"").decode("utf-8", "replace") for name, each in message.headers}
    found: dict[str, object] = {"header": headers}
    if message.key is not None:
        found["key"] = message.key.decode("utf-8", "replace")
    try:
        found["payload"] = decode(message.value)
    except ValueFault as fault:
        faults.append(LineFault(fault.reason, fault.detail))
    return found


def _row(number: int, message: Any, reader: FieldReader, decode: Decode, arrival_ns: int) -> Row:
    stamp_ns = message.timestamp * NS_PER_MS
    found = reader.found(message.headers, message.key, message.value, stamp_ns, message.partition)
    if not isinstance(found, MappedFields):
        return Row(number, {}, LineFault(found.reason, found.detail))
    values: dict[str, Any] = {
        "source": found.source, "seq": found.seq, "epoch": found.epoch, "ts": found.ts_ns,
        "type": found.type, "kind": found.kind or None, "arrival": arrival_ns,
    }  # fmt: skip
    try:
        values["payload"] = as_json(walked(decode(message.value), reader.fields.payload.path))
    except ValueFault:
        values["payload"] = None
    return Row(number, values, ts_is_instant=True, is_mapped=True)
